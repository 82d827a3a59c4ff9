"""InternVL3 and 3.5: tiles of the image, then a thumbnail, all one run of `<IMG_CONTEXT>`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image

from conduit_cli.families.base import Family

__all__ = ["InternVL"]


class InternVL(Family):
    """`InternVLForConditionalGeneration`; layout is `{"tokens": n}`."""

    name = "InternVL3"
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

    @property
    def _per_tile(self) -> int:
        vision = self.config.vision_config
        (tall, wide), (high, broad) = vision.image_size, vision.patch_size
        return int((tall // high) * (wide // broad) * self.config.downsample_ratio**2)

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
