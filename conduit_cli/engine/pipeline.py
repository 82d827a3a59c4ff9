"""One prompt through the stages: place, score, select, refresh, first token.

Loading pages comes before (their states are in the prompt), decoding after (`decode.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from conduit_cli.engine.backend import PromptCache
from conduit_cli.engine.flops import full_prefill_flops
from conduit_cli.engine.prompt import Prompt
from conduit_cli.engine.steps import Steps
from conduit_cli.engine.vlm import VisionLanguageModel
from conduit_cli.errors import ModelError
from conduit_cli.policies.base import Evidence, LayerPolicy, Policy, Selection, TokenPolicy

__all__ = ["Served", "check_policy", "serve"]


@dataclass
class Served:
    """A prompt whose first token's logits are known, ready to decode.

    Attributes:
        logits: [vocab] float32, of the first answer token.
        cache: the prompt's K/V, with room to decode.
        selection: what the policy chose, and why.
        attention: [L, N_vis] of the scoring pass, or None.
        norms: [L, N_vis] cached value norms.
        rows_per_layer: visual rows that the refresh recomputed in each layer, counted as they were written.
        flops, full_flops: of the passes run, and of a full prefill of the same prompt.
        timings: seconds per stage.
    """

    logits: Tensor
    cache: PromptCache
    selection: Selection
    attention: Tensor | None
    norms: Tensor
    rows_per_layer: tuple[int, ...]
    flops: int
    full_flops: int
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def refreshed(self) -> int:
        """Visual tokens that were recomputed; where layers differ, their mean, rounded down."""
        return sum(self.rows_per_layer) // len(self.rows_per_layer)


def check_policy(model: VisionLanguageModel, policy: Policy) -> None:
    """Refuse a policy that drops rows between layers where the family adds features to visual rows there.

    Raises:
        ModelError: it does.
    """
    if isinstance(policy, LayerPolicy) and model.extra_width:
        raise ModelError(
            f"the policy {policy.name} drops rows between layers, which this model's image features don't allow",
            "choose another: --policy conduit",
        )


def serve(
    model: VisionLanguageModel,
    prompt: Prompt,
    policy: Policy,
    ratio: float,
    *,
    room: int = 0,
    on_phase: Callable[[str], None] = lambda _name: None,
    steps: Steps | None = None,
) -> Served:
    """Answer-ready state of a prompt under a policy.

    Args:
        ratio: refresh ratio r in 0..1; the policy turns it into a budget.
        room: slots to reserve for decoding.
        on_phase: told the name of each stage as it begins.
        steps: what takes the steps, over this model and prompt; by default they are all really taken. `room` and
            `on_phase` are its own.

    Raises:
        ModelError: the model can't be served under this policy.
    """
    check_policy(model, policy)
    steps = steps or Steps(model, prompt, room=room, on_phase=on_phase)
    norms = steps.norms()
    attention: Tensor | None = None
    if isinstance(policy, LayerPolicy):
        hidden, selection, rows = _by_layer(steps, policy, ratio)
    else:
        assert isinstance(policy, TokenPolicy)
        hidden, selection, attention, rows = _by_token(steps, policy, ratio, norms)
    logits = steps.first_token(hidden)
    return Served(
        logits=logits,
        cache=steps.cache,
        selection=selection,
        attention=attention,
        norms=norms,
        rows_per_layer=rows,
        flops=steps.flops,
        full_flops=full_prefill_flops(model.decoder, len(prompt)),
        timings=steps.timings,
    )


def _by_token(
    steps: Steps, policy: TokenPolicy, ratio: float, norms: Tensor
) -> tuple[Tensor, Selection, Tensor | None, tuple[int, ...]]:
    """Place, score where the policy asks for it, select, refresh."""
    prompt = steps.prompt
    sizes = torch.bincount(prompt.page_of, minlength=len(prompt.states)).tolist()
    budget = policy.budget(ratio, sizes)
    hidden: Tensor | None = None
    attention: Tensor | None = None
    if budget < len(prompt.visual_slots) or policy.needs_scoring:
        steps.place()
    if policy.needs_scoring:
        hidden, attention = steps.score(policy.span)
    selection = steps.select(policy, Evidence(prompt.page_of, norms, attention, ratio, budget))
    rows = _rows_to_refresh(prompt, selection, scored=hidden is not None, between=policy.between)
    before = steps.written
    if len(rows):
        hidden = steps.refresh(rows)
    text = int((prompt.image_of[rows] < 0).sum())
    assert hidden is not None  # either pass ends on the prompt's last row
    return hidden, selection, attention, _visual_rows(before, steps.written, text)


def _by_layer(steps: Steps, policy: LayerPolicy, ratio: float) -> tuple[Tensor, Selection, tuple[int, ...]]:
    """Place, then one pass over all text and a set of visual tokens that shrinks, unless the policy keeps it."""
    prompt = steps.prompt
    schedule = policy.schedule(ratio, len(prompt.visual_slots), steps.model.decoder.geometry.layers)
    steps.place()
    before = steps.written
    if len(set(schedule)) > 1:
        hidden, selection = steps.refresh_by_layer(policy, schedule)
    else:
        first = torch.arange(schedule[0], device=prompt.ids.device)
        hidden = steps.refresh(torch.cat([prompt.visual_slots[first], prompt.text_slots]).sort().values)
        depth = torch.zeros_like(prompt.page_of)
        depth[first] = len(schedule)
        selection = Selection(first, depth.float(), depth=depth)
    return hidden, selection, _visual_rows(before, steps.written, len(prompt.text_slots))


def _rows_to_refresh(prompt: Prompt, selection: Selection, *, scored: bool, between: bool) -> Tensor:
    """Slots of the refresh pass: chosen visual tokens, and the text that saw stale ones.

    After a scoring pass the text before the first chosen token is as exact as it will be: what it sees stays as it
    is. With nothing chosen so is all of it; without a scoring pass no text has been computed yet.
    """
    chosen = prompt.visual_slots[selection.chosen]
    text = prompt.text_slots
    if scored:
        rewritten = text if between else prompt.query_span
        text = rewritten[rewritten > chosen[0]] if len(chosen) else text[:0]
    return torch.cat([chosen, text]).sort().values


def _visual_rows(before: tuple[int, ...], after: tuple[int, ...], text: int) -> tuple[int, ...]:
    """Rows of each layer that were written between, less the text rows, which every layer had."""
    return tuple(max(0, now - then - text) for then, now in zip(before, after, strict=True))
