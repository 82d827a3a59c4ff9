"""Qwen2.5-VL: M-RoPE over a dynamic-resolution grid, one run of `<|image_pad|>` per image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from conduit_cli.engine.vlm import Decoder, EncodedImage
from conduit_cli.errors import InputError
from conduit_cli.families.base import Family

__all__ = ["Qwen25VL"]

_PIXELS_PER_PAGE = 1280 * 28 * 28
"""Default ceiling of a page's pixels: 1280 visual tokens, as the model's authors recommend."""
_MAX_ASPECT = 200


class Qwen25VL(Family):
    """`Qwen2_5_VLForConditionalGeneration`; layout is `{"grid_thw": [t, h, w]}` in patches."""

    name = "Qwen2.5-VL"

    def build_decoder(self) -> Decoder:
        """The language model under `model.model.language_model`."""
        return Decoder(self.model.model.language_model, self.model.lm_head)  # type: ignore[union-attr,arg-type]

    @staticmethod
    def default_max_pixels(image_processor: Any) -> int:
        """The processor's own budget, at most 1280 tokens."""
        return min(int(image_processor.size["longest_edge"]), _PIXELS_PER_PAGE)

    @property
    def _cell(self) -> int:
        return int(self.image_processor.patch_size * self.image_processor.merge_size)

    @property
    def _budget(self) -> dict[str, int]:
        least = min(int(self.image_processor.size["shortest_edge"]), self.max_pixels)
        return {"shortest_edge": least, "longest_edge": self.max_pixels}

    def fit(self, width: float, height: float) -> tuple[int, int]:
        """The largest grid-aligned size of this shape within the pixel budget."""
        scale = math.sqrt(self.max_pixels / (width * height))
        budget = self._budget
        tall, wide = smart_resize(
            max(1, round(height * scale)),
            max(1, round(width * scale)),
            factor=self._cell,
            min_pixels=budget["shortest_edge"],
            max_pixels=budget["longest_edge"],
        )
        return wide, tall

    def encode_image(self, image: Image.Image) -> EncodedImage:
        """Patchify with the stock processor and run the stock vision tower."""
        if max(image.size) > _MAX_ASPECT * min(image.size):
            raise InputError(
                f"the picture is {image.width} x {image.height} pixels, too long and thin to read",
                f"crop it so that one side is at most {_MAX_ASPECT} times the other",
            )
        inputs = self.image_processor(images=[image], size=self._budget, return_tensors="pt")
        grid = inputs["image_grid_thw"]
        device = self.decoder.device
        with torch.inference_mode():
            features = self.model.model.get_image_features(  # type: ignore[union-attr,operator]
                inputs["pixel_values"].to(device), grid.to(device)
            )
        merge = int(self.image_processor.merge_size)
        t, h, w = (int(n) for n in grid[0])
        return EncodedImage(
            embeddings=features.pooler_output[0],
            extras={},
            layout={"grid_thw": [t, h, w]},
            grid=(h // merge, w // merge),
        )

    def placeholder(self, layout: Mapping[str, Any]) -> list[int]:
        """One `<|image_pad|>` per merged cell."""
        merge = int(self.image_processor.merge_size)
        return [self.visual_id] * (math.prod(layout["grid_thw"]) // merge**2)

    def positions(self, ids: Tensor, image_of: Tensor, layouts: Sequence[Mapping[str, Any]]) -> Tensor:
        """M-RoPE positions [3, N] from the stock `get_rope_index`, over the whole prompt."""
        if not layouts:
            return torch.arange(len(ids)).expand(3, -1)
        grids = torch.tensor([layout["grid_thw"] for layout in layouts])
        kinds = (image_of >= 0).int()
        positions, _ = self.model.model.get_rope_index(ids[None], kinds[None], image_grid_thw=grids)  # type: ignore[union-attr,operator]
        out: Tensor = positions[:, 0]
        return out
