"""InternVL3 and 3.5: tiles of the image, then a thumbnail, all one run of `<IMG_CONTEXT>`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import get_optimal_tiled_canvas

from conduit_cli.families.base import Family
from conduit_cli.families.tiling import tile_grids
from conduit_cli.inspection.geometry import TokenGrid

__all__ = ["InternVL"]


class InternVL(Family):
    """`InternVLForConditionalGeneration`; layout is `{"tokens": n, "tiles": [rows, columns]}`."""

    name = "InternVL3"
    revision = 2
    not_pixels = ("num_patches",)

    @staticmethod
    def default_max_pixels(image_processor: Any) -> int:
        """As many tiles as the processor makes."""
        return int(image_processor.max_patches) * _area(image_processor)

    @property
    def _tiling(self) -> dict[str, Any]:
        tiles = max(1, self.max_pixels // _area(self.image_processor))
        fewest = min(int(self.image_processor.min_patches), tiles)
        return {"crop_to_patches": True, "min_patches": fewest, "max_patches": tiles}

    def process(self, images: Sequence[Image.Image]) -> dict[str, Any]:
        """Tiles within the pixel budget."""
        return dict(self.image_processor(images=list(images), return_tensors="pt", **self._tiling))

    def layout(self, image: Image.Image, processed: Mapping[str, Any], tokens: int) -> dict[str, Any]:
        """How many tokens, and rows and columns of tiles."""
        return {"tokens": tokens, "tiles": list(self._tiles(image.width, image.height))}

    def _tiles(self, width: int, height: int) -> tuple[int, int]:
        """Rows and columns of the tiles that the processor cuts a picture of this size into."""
        size, tiling = self.image_processor.size, self._tiling
        if tiling["max_patches"] == 1:
            return 1, 1
        columns, rows = get_optimal_tiled_canvas(
            (height, width), (size["height"], size["width"]), tiling["min_patches"], tiling["max_patches"]
        )
        return int(rows), int(columns)

    @property
    def _sides(self) -> tuple[int, int]:
        """Rows and columns of a tile's tokens."""
        vision, share = self.config.vision_config, self.config.downsample_ratio
        rows, columns = (side // patch for side, patch in zip(vision.image_size, vision.patch_size, strict=True))
        return int(rows * share), int(columns * share)

    @property
    def _per_tile(self) -> int:
        rows, columns = self._sides
        return rows * columns

    def grids(self, layout: Mapping[str, Any]) -> tuple[TokenGrid, ...]:
        """The page is stretched to whole tiles, and to one more, the thumbnail, unless one is all."""
        rows, columns = layout["tiles"]
        return tile_grids(rows, columns, self._sides)

    def tokens(self, width: int, height: int) -> int:
        """So many for each tile and for the thumbnail."""
        return self._per_tile * int(self.image_processor.get_number_of_image_patches(height, width, self._tiling))

    def placeholder(self, layout: Mapping[str, Any]) -> str:
        """The visual tokens between their two marks."""
        start = getattr(self.tokenizer, "start_image_token", "<img>")
        end = getattr(self.tokenizer, "end_image_token", "</img>")
        return f"{start}{self.visual_token * int(layout['tokens'])}{end}"


def _area(image_processor: Any) -> int:
    return int(image_processor.size["height"]) * int(image_processor.size["width"])
