"""Qwen3-VL: as Qwen2.5-VL, and the first decoder layers add features of earlier vision layers (deepstack)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from conduit_cli.engine.vlm import PageState
from conduit_cli.families.qwen2_5_vl import Qwen25VL

__all__ = ["Qwen3VL"]


class Qwen3VL(Qwen25VL):
    """`Qwen3VLForConditionalGeneration`; an image's state holds `deepstack` [D, n, hidden] besides the rest."""

    name = "Qwen3-VL"

    @property
    def extra_width(self) -> int:
        """One hidden vector per deepstack layer."""
        return len(self.config.vision_config.deepstack_visual_indexes) * int(self.config.text_config.hidden_size)

    def extra_features(self, output: Any) -> dict[str, Tensor]:
        """The deepstack features of one image."""
        layers = [torch.cat(tuple(layer)) for layer in output.deepstack_features]
        return {"deepstack": torch.stack(layers)} if layers else {}

    def extras(self, rows: Tensor, image_of: Tensor, states: Sequence[PageState]) -> Mapping[str, Any]:
        """Which rows are visual, and their features in row order."""
        owner = image_of[rows]
        visual = owner >= 0
        if not bool(visual.any()) or not self.config.vision_config.deepstack_visual_indexes:
            return {}
        pieces = []
        for image in sorted(set(owner[visual].tolist())):
            within = torch.searchsorted((image_of == image).nonzero()[:, 0], rows[owner == image])
            features = states[image].tensor("deepstack").to(rows.device, self.decoder.dtype)
            pieces.append(features[:, within])
        return {"visual_pos_masks": visual[None], "deepstack_visual_embeds": list(torch.cat(pieces, dim=1))}
