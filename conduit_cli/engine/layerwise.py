"""The refresh of a layer policy: one pass whose visual rows grow fewer from layer to layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from conduit_cli.engine.backend import PromptCache, Recorder
from conduit_cli.engine.passes import forward_rows
from conduit_cli.engine.prompt import Prompt
from conduit_cli.engine.vlm import VisionLanguageModel
from conduit_cli.policies.base import LayerPolicy, LayerView, Selection, top_k

__all__ = ["refresh_by_layer"]


def refresh_by_layer(
    model: VisionLanguageModel, prompt: Prompt, cache: PromptCache, policy: LayerPolicy, schedule: Sequence[int]
) -> tuple[Tensor, Selection]:
    """Recompute all text and a shrinking set of visual tokens over a placed cache.

    Args:
        schedule: how many visual tokens are recomputed in each layer.

    Returns:
        hidden [1, hidden] of the prompt's last row, and what was recomputed how deep.
    """
    narrowing = _Narrowing(prompt, cache, policy, schedule)
    cache.comparing = True
    try:
        hidden = forward_rows(model, prompt, cache, narrowing.rows, narrowing.recorder, narrowing)
    finally:
        cache.comparing = False
    depth = narrowing.depth
    return hidden, Selection((depth > 0).nonzero()[:, 0], depth.float(), depth=depth)


class _Narrowing:
    """Which visual tokens are active, kept in step with the rows of the pass."""

    def __init__(self, prompt: Prompt, cache: PromptCache, policy: LayerPolicy, schedule: Sequence[int]) -> None:
        self.prompt, self.cache, self.policy, self.schedule = prompt, cache, policy, schedule
        shrinking = [layer for layer in range(len(schedule) - 1) if schedule[layer + 1] < schedule[layer]]
        self.recorder = Recorder(None, {}, shrinking) if policy.needs_attention else None
        self.active = torch.arange(schedule[0], device=prompt.ids.device)
        self.depth = torch.zeros_like(prompt.page_of)
        self.depth[self.active] += 1
        self.rows = torch.cat([prompt.visual_slots[self.active], prompt.text_slots]).sort().values

    def __call__(self, layer: int) -> Tensor | None:
        """The rows that go on into `layer`, as indices of the rows before it; None keeps all."""
        going_on = None
        if self.schedule[layer] < len(self.active):
            best = top_k(self.policy.rank(self._view(layer - 1)), self.schedule[layer])
            self.active = self.active[best]
            kept = torch.cat([self.prompt.visual_slots[self.active], self.prompt.text_slots]).sort().values
            going_on = torch.searchsorted(self.rows, kept)
            self.rows = kept
        self.depth[self.active] += 1
        return going_on

    def _view(self, layer: int) -> LayerView:
        written = self.cache.overwritten
        assert written is not None
        slots = self.prompt.visual_slots[self.active]
        here = torch.searchsorted(self.rows, slots)
        attention = torch.zeros(len(slots), device=slots.device)
        if self.recorder is not None:
            attention = self.recorder.attention[layer][slots]
        return LayerView(
            layer=layer,
            active=self.active,
            keys=written.keys[:, here],
            values=written.values[:, here],
            stale_keys=written.stale_keys[:, here],
            stale_values=written.stale_values[:, here],
            attention=attention,
        )
