"""LLaVA-1.5: one square of fixed size per image, one run of `<image>`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image

from conduit_cli.families.base import Family

__all__ = ["Llava"]

_WITH_CLASS_TOKEN = {"clip_vision_model"}


class Llava(Family):
    """`LlavaForConditionalGeneration` over a tower of fixed size; layout is `{"tokens": n}`."""

    name = "LLaVA-1.5"

    @staticmethod
    def default_max_pixels(image_processor: Any) -> int:
        """The square that the vision tower sees; it can't be changed."""
        square = getattr(image_processor, "crop_size", None) or image_processor.size
        side = square.get("height") or square.get("shortest_edge")
        return int(side) ** 2

    def fit(self, width: float, height: float) -> tuple[int, int]:
        """The square itself: a page that is drawn into it loses its proportions, but not its edges."""
        side = int(self.config.vision_config.image_size)
        return side, side

    def process(self, images: Sequence[Image.Image]) -> dict[str, Any]:
        """The pictures as they are: a smaller budget would blur them and save nothing."""
        return dict(self.image_processor(images=list(images), return_tensors="pt"))

    @property
    def _side(self) -> int:
        """Patches along one side of the square."""
        vision = self.config.vision_config
        return int(vision.image_size) // int(vision.patch_size)

    @property
    def _odd(self) -> int:
        """Features of the square that are no patches: 1 where the tower's class token is kept, else 0."""
        has = self.config.vision_config.model_type in _WITH_CLASS_TOKEN
        return int(has) - int(self.config.vision_feature_select_strategy == "default")

    def tokens(self, width: int, height: int) -> int:
        """The same for every picture."""
        return self._side**2 + self._odd

    def seen(self, width: int, height: int) -> tuple[int, int, int, int]:
        """The middle square, where the processor crops to one; else all of it, stretched."""
        processor = self.image_processor
        if not getattr(processor, "do_center_crop", False) or "shortest_edge" not in processor.size:
            return super().seen(width, height)
        share = int(processor.crop_size["height"]) / int(processor.size["shortest_edge"])
        side = round(min(width, height) * min(1.0, share))
        left, top = (width - side) // 2, (height - side) // 2
        return left, top, left + side, top + side

    def grid(self, layout: Mapping[str, Any]) -> tuple[int, int] | None:
        """The square of patches."""
        return (self._side, self._side) if layout["tokens"] == self._side**2 else None
