"""LLaVA-1.5: one square of fixed size per image, one run of `<image>`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image

from conduit_cli.families.base import Family
from conduit_cli.families.tiling import spans
from conduit_cli.inspection.geometry import Span, TokenGrid

__all__ = ["Llava"]

_WITH_CLASS_TOKEN = {"clip_vision_model"}


class Llava(Family):
    """`LlavaForConditionalGeneration` over a tower of fixed size.

    Layout is `{"tokens": n, "size": [width, height]}`.
    """

    name = "LLaVA-1.5"
    revision = 2

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

    def layout(self, image: Image.Image, processed: Mapping[str, Any], tokens: int) -> dict[str, Any]:
        """How many tokens, and the picture's size, on which it depends what is cropped."""
        return {"tokens": tokens, "size": [image.width, image.height]}

    def grids(self, layout: Mapping[str, Any]) -> tuple[TokenGrid, ...]:
        """The square of patches."""
        return (self._square("page", *layout["size"]),)

    def _square(self, name: str, width: int, height: int) -> TokenGrid:
        """The tower's patches on a picture of this size; the class token, where it is kept, comes before them."""
        if self._odd < 0:  # patches are missing
            return TokenGrid(name)
        rows, columns = (spans(self._side, seen) for seen in self._seen(width, height))
        return TokenGrid.of(name, rows, columns, range(self._odd, self._odd + self._side**2))

    def _seen(self, width: int, height: int) -> tuple[Span, Span]:
        """Top and bottom, left and right of what a picture's patches are cut from.

        The processor stretches the picture to a size, or brings its shorter side to a length, and may crop to the
        middle. The tower leaves what is no whole patch at the right and at the bottom.
        """
        size = self.image_processor.size
        if "shortest_edge" in size:  # the same rounding as the processor's
            short, least = int(size["shortest_edge"]), min(width, height)
            resized = (int(short * height / least), int(short * width / least))
        else:
            resized = (int(size["height"]), int(size["width"]))
        kept = resized
        if getattr(self.image_processor, "do_center_crop", False):
            crop = self.image_processor.crop_size
            kept = (int(crop["height"]), int(crop["width"]))
        read = self._side * int(self.config.vision_config.patch_size)
        top, left = ((whole - part) // 2 for whole, part in zip(resized, kept, strict=True))
        return (top / resized[0], (top + read) / resized[0]), (left / resized[1], (left + read) / resized[1])
