"""Idefics3: tiles in rows and columns, each behind text that names its place, then the whole image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image

from conduit_cli.engine.vlm import Decoder
from conduit_cli.families.base import Family
from conduit_cli.families.tiling import tile_grids
from conduit_cli.inspection.geometry import TokenGrid

__all__ = ["Idefics3"]


class Idefics3(Family):
    """`Idefics3ForConditionalGeneration`; layout is `{"rows": r, "columns": c, "tokens": n}`, 0 x 0 where not split."""

    name = "Idefics3"
    not_pixels = ("rows", "cols")

    def build_decoder(self) -> Decoder:
        """The text model, which has another name here."""
        return Decoder(self.model.model.text_model, self.model.lm_head)  # type: ignore[union-attr,arg-type]

    @staticmethod
    def default_max_pixels(image_processor: Any) -> int:
        """The square over the longest edge that the processor makes."""
        return int(image_processor.size["longest_edge"]) ** 2

    @property
    def _size(self) -> dict[str, int]:
        """Every image is brought to this longest edge, in whole tiles."""
        if self.max_pixels >= self.default_max_pixels(self.image_processor):
            return {"longest_edge": int(self.image_processor.size["longest_edge"])}
        tile = int(self.image_processor.max_image_size["longest_edge"])
        return {"longest_edge": max(1, math.isqrt(self.max_pixels) // tile) * tile}

    def fit(self, width: float, height: float) -> tuple[int, int]:
        """The longest edge that the processor makes of every image."""
        scale = self._size["longest_edge"] / max(width, height)
        return max(1, round(width * scale)), max(1, round(height * scale))

    def process(self, images: Sequence[Image.Image]) -> dict[str, Any]:
        """Tiles of all images as one sample, and how many rows and columns each image has."""
        output = self.image_processor(
            images=[list(images)], size=self._size, return_row_col_info=True, return_tensors="pt"
        )
        return dict(output)

    def layout(self, image: Image.Image, processed: Mapping[str, Any], tokens: int) -> dict[str, Any]:
        """Rows and columns of tiles."""
        return {"rows": int(processed["rows"][0][0]), "columns": int(processed["cols"][0][0]), "tokens": tokens}

    @property
    def _side(self) -> int:
        """Tokens along one side of a tile."""
        vision = self.config.vision_config
        return int(vision.image_size // vision.patch_size / self.config.scale_factor)

    @property
    def _per_tile(self) -> int:
        return self._side**2

    def grids(self, layout: Mapping[str, Any]) -> tuple[TokenGrid, ...]:
        """The page is stretched to whole tiles, and to one more, which comes last; that one alone if not split."""
        return tile_grids(layout["rows"], layout["columns"], (self._side, self._side))

    def tokens(self, width: int, height: int) -> int:
        """So many for each tile, and for the whole image."""
        _, rows, columns = self.image_processor.get_number_of_image_patches(height, width, {"size": self._size})
        return self._per_tile * (int(rows) * int(columns) + 1)

    def placeholder(self, layout: Mapping[str, Any]) -> str:
        """Tile by tile; what stands between the visual tokens is text."""
        fake = getattr(self.tokenizer, "fake_image_token", "<fake_token_around_image>")
        whole = getattr(self.tokenizer, "global_image_token", "<global-img>")
        tile = self.visual_token * self._per_tile
        rows, columns = layout["rows"], layout["columns"]
        lines = [
            "".join(f"{fake}<row_{row}_col_{column}>{tile}" for column in range(1, columns + 1)) + "\n"
            for row in range(1, rows + 1)
        ]
        return "".join(lines) + ("\n" if rows else "") + f"{fake}{whole}{tile}{fake}"
