"""LLaVA-NeXT: the whole image in one square, then tiles at the best of several resolutions, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image
from transformers.image_processing_utils import select_best_resolution

from conduit_cli.families.base import Family
from conduit_cli.families.llava import Llava

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
        tall, wide = select_best_resolution((height, width), self.config.image_grid_pinpoints)
        side = int(self.config.vision_config.image_size)
        return unpadded(width, height, tall // side * self._side, wide // side * self._side)

    def grid(self, layout: Mapping[str, Any]) -> None:
        """Overview and tiles form no single grid."""


def unpadded(width: int, height: int, rows: int, columns: int) -> tuple[int, int]:
    """Of a grid of patches over a padded image, the rows and columns that show the image.

    The same rounding as the stock model's `unpad_image`.
    """
    if width / height > columns / rows:
        shown = int(round(height * (columns / width), 7))
        return rows - (rows - shown) // 2 * 2, columns
    shown = int(round(width * (rows / height), 7))
    return rows, columns - (columns - shown) // 2 * 2
