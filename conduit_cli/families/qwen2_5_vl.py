"""Qwen2.5-VL: M-RoPE over a dynamic-resolution grid, one run of `<|image_pad|>` per image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from conduit_cli.families.base import Family
from conduit_cli.families.tiling import spans
from conduit_cli.inspection.geometry import TokenGrid

__all__ = ["Qwen25VL"]

_PIXELS_PER_PAGE = 1280 * 28 * 28
"""Default ceiling of a page's pixels: 1280 visual tokens, as the model's authors recommend."""


class Qwen25VL(Family):
    """`Qwen2_5_VLForConditionalGeneration`; layout is `{"grid_thw": [t, h, w]}` in patches."""

    name = "Qwen2.5-VL"

    @staticmethod
    def default_max_pixels(image_processor: Any) -> int:
        """The processor's own budget, at most 1280 tokens of Qwen2.5-VL."""
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
        return self._resized(max(1, round(width * scale)), max(1, round(height * scale)))

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        budget = self._budget
        tall, wide = smart_resize(
            height,
            width,
            factor=self._cell,
            min_pixels=budget["shortest_edge"],
            max_pixels=budget["longest_edge"],
        )
        return wide, tall

    def tokens(self, width: int, height: int) -> int:
        """One per cell of the resized picture."""
        wide, tall = self._resized(width, height)
        return (wide // self._cell) * (tall // self._cell)

    def process(self, images: Sequence[Image.Image]) -> dict[str, Any]:
        """Patches within the pixel budget."""
        return dict(self.image_processor(images=list(images), size=self._budget, return_tensors="pt"))

    def layout(self, image: Image.Image, processed: Mapping[str, Any], tokens: int) -> dict[str, Any]:
        """The grid of patches."""
        return {"grid_thw": [int(n) for n in processed["image_grid_thw"][0]]}

    def grids(self, layout: Mapping[str, Any]) -> tuple[TokenGrid, ...]:
        """The grid of merged cells."""
        merge = int(self.image_processor.merge_size)
        _, tall, wide = layout["grid_thw"]
        rows, columns = tall // merge, wide // merge
        return (TokenGrid.of("page", spans(rows), spans(columns), range(rows * columns)),)

    def placeholder(self, layout: Mapping[str, Any]) -> str:
        """One `<|image_pad|>` per merged cell."""
        merge = int(self.image_processor.merge_size)
        return self.visual_token * (int(math.prod(layout["grid_thw"])) // merge**2)

    def token_inputs(self, ids: Tensor) -> dict[str, Any]:
        """Ids, and which of them are visual."""
        return {"input_ids": ids[None], "mm_token_type_ids": (ids == self.visual_id).int()[None]}

    def positions(self, ids: Tensor, image_of: Tensor, layouts: Sequence[Mapping[str, Any]]) -> Tensor:
        """M-RoPE positions [3, N] from the stock `get_rope_index`, over the whole prompt."""
        if not layouts:
            return torch.arange(len(ids)).expand(3, -1)
        grids = torch.tensor([layout["grid_thw"] for layout in layouts])
        kinds = (image_of >= 0).int()
        positions, _ = self.model.model.get_rope_index(ids[None], kinds[None], image_grid_thw=grids)  # type: ignore[union-attr,operator]
        out: Tensor = positions[:, 0]
        return out
