"""LLaVA-NeXT: the whole image in one square, then tiles at the best of several resolutions, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image
from transformers.image_processing_utils import get_patch_output_size, select_best_resolution
from transformers.image_utils import ChannelDimension

from conduit_cli.families.base import Family
from conduit_cli.families.llava import Llava
from conduit_cli.families.tiling import inside, pooled, tiled
from conduit_cli.inspection.geometry import Span, TokenGrid

__all__ = ["LlavaNext", "unpadded"]


class LlavaNext(Llava):
    """`LlavaNextForConditionalGeneration`, over Llama or Mistral; newline features are visual tokens too."""

    name = "LLaVA-NeXT"

    @staticmethod
    def default_max_pixels(image_processor: Any) -> int:
        """The largest of the resolutions."""
        return max(int(height) * int(width) for height, width in image_processor.image_grid_pinpoints)

    def fit(self, width: float, height: float) -> tuple[int, int]:
        """The page's own shape, within the budget."""
        return Family.fit(self, width, height)

    def process(self, images: Sequence[Image.Image]) -> dict[str, Any]:
        """Tiles within the pixel budget."""
        return Family.process(self, images)

    def tokens(self, width: int, height: int) -> int:
        """The square, and every row of the tiles' patches without their padding, each with a newline."""
        rows, columns = self._rows_and_columns(width, height)
        return self._side**2 + self._odd + rows * (columns + 1)

    def _rows_and_columns(self, width: int, height: int) -> tuple[int, int]:
        """Rows and columns of the tiles' features."""
        return self._unpadded(width, height)

    def _unpadded(self, width: int, height: int) -> tuple[int, int]:
        down, across = self._tiles(width, height)
        return unpadded(width, height, down * self._side, across * self._side)

    def _tiles(self, width: int, height: int) -> tuple[int, int]:
        """Rows and columns of tiles."""
        tall, wide = select_best_resolution((height, width), self.config.image_grid_pinpoints)
        side = int(self.config.vision_config.image_size)
        return int(tall) // side, int(wide) // side

    def layout(self, image: Image.Image, processed: Mapping[str, Any], tokens: int) -> dict[str, Any]:
        """How many tokens, and the size of the picture that was cut: that of the image, or smaller for the budget."""
        height, width = (int(n) for n in processed["image_sizes"][0])
        return {"tokens": tokens, "size": [width, height]}

    def grids(self, layout: Mapping[str, Any]) -> tuple[TokenGrid, ...]:
        """The tiles' features, but for the token that ends each row, and the square, to which the page is stretched."""
        overview = self._square("overview", 1, 1)
        rows, columns = self._on_page(*layout["size"])
        first, line = self._side**2 + self._odd, len(columns) + 1
        tokens = [first + row * line + column for row in range(len(rows)) for column in range(len(columns))]
        return (TokenGrid.of("tiles", rows, columns, tokens), overview) if tokens else (overview,)

    def _on_page(self, width: int, height: int) -> tuple[list[Span], list[Span]]:
        """Rows and columns of the tiles' features.

        The page is fitted into whole tiles in its own shape and padded on two sides, half of it before the page,
        rounded down to pixels. The model takes off whole patches on both sides: at the page's edge a part of a patch
        may be padding, or a strip of the page be lost.
        """
        side, tiles = int(self.config.vision_config.image_size), self._tiles(width, height)
        padded = tuple(side * count for count in tiles)
        page = get_patch_output_size(np.broadcast_to(0, (3, height, width)), padded, ChannelDimension.FIRST)
        made = []
        for count, read, kept, features, whole, part in zip(
            tiles, self._seen(1, 1), self._unpadded(width, height), self._rows_and_columns(width, height), padded, page,
            strict=True,
        ):  # fmt: skip
            cells = tiled(count, self._side, read)
            off = (len(cells) - kept) // 2
            before = (whole - part) // 2
            canvas = (-before / part, (whole - before) / part)
            made.append([inside(cell, canvas) for cell in pooled(cells[off : off + kept], features)])
        return made[0], made[1]


def unpadded(width: int, height: int, rows: int, columns: int) -> tuple[int, int]:
    """Of a grid of patches over a padded image, the rows and columns that show the image.

    The same rounding as the stock model's `unpad_image`.
    """
    if width / height > columns / rows:
        shown = int(round(height * (columns / width), 7))
        return rows - (rows - shown) // 2 * 2, columns
    shown = int(round(width * (rows / height), 7))
    return rows, columns - (columns - shown) // 2 * 2
