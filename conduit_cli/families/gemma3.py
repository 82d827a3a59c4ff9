"""Gemma 3: an image's tokens see each other in both directions; most layers slide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from conduit_cli.families.base import Family
from conduit_cli.families.tiling import spans
from conduit_cli.inspection.geometry import TokenGrid

__all__ = ["Gemma3"]


class Gemma3(Family):
    """`Gemma3ForConditionalGeneration`; layout is `{"tokens": n}`.

    A refreshed visual token sees the later tokens of its image as well, some of them stale at r < 1, just
    as it sees stale earlier ones. At r = 1 all of an image's rows are written before any of them attends.
    """

    name = "Gemma 3"
    not_pixels = ("num_crops",)

    @staticmethod
    def default_max_pixels(image_processor: Any) -> int:
        """The square that the vision tower sees; it can't be changed."""
        return int(image_processor.size["height"]) * int(image_processor.size["width"])

    def fit(self, width: float, height: float) -> tuple[int, int]:
        """The square, into which the processor would stretch every page."""
        return int(self.image_processor.size["width"]), int(self.image_processor.size["height"])

    def tokens(self, width: int, height: int) -> int:
        """The same for every picture."""
        return int(self.config.mm_tokens_per_image)

    def process(self, images: Sequence[Image.Image]) -> dict[str, Any]:
        """The whole pictures; crops ("pan and scan") are off in the stock processor too, unless a caller asks."""
        return dict(self.image_processor(images=list(images), do_pan_and_scan=False, return_tensors="pt"))

    def grids(self, layout: Mapping[str, Any]) -> tuple[TokenGrid, ...]:
        """A square of pooled patches."""
        side = spans(int(self.config.mm_tokens_per_image**0.5))
        return (TokenGrid.of("page", side, side, range(len(side) ** 2)),)

    @property
    def marker(self) -> str:
        """The template marks an image by its start."""
        return str(self.tokenizer.boi_token)

    def placeholder(self, layout: Mapping[str, Any]) -> str:
        """The visual tokens between their two marks, with empty lines around them."""
        visual = self.visual_token * int(layout["tokens"])
        return f"\n\n{self.tokenizer.boi_token}{visual}{self.tokenizer.eoi_token}\n\n"

    def token_inputs(self, ids: Tensor) -> dict[str, Any]:
        """Ids, and which of them are visual."""
        return {"input_ids": ids[None], "token_type_ids": (ids == self.visual_id).int()[None]}

    def masks(self, rows: Tensor, image_of: Tensor) -> dict[str, Tensor | None]:
        """Causal, or within the same image; in sliding layers nothing before the window."""
        keys = torch.arange(len(image_of), device=rows.device)
        owner = image_of[rows][:, None]
        allowed = (keys[None] <= rows[:, None]) | ((owner == image_of[None]) & (owner >= 0))
        near = keys[None] > rows[:, None] - (self.decoder.window or len(keys))
        return {"full_attention": allowed[None, None], "sliding_attention": (allowed & near)[None, None]}
