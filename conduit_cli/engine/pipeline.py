"""One prompt through the stages: place, score, select, refresh, first token.

Loading pages comes before (their states are in the prompt), decoding after (`decode.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from conduit_cli.engine.backend import PromptCache
from conduit_cli.engine.flops import full_prefill_flops, pass_flops
from conduit_cli.engine.layerwise import refresh_by_layer
from conduit_cli.engine.passes import forward_rows, score, value_norms
from conduit_cli.engine.place import place
from conduit_cli.engine.prompt import Prompt
from conduit_cli.engine.vlm import VisionLanguageModel
from conduit_cli.policies.base import Evidence, LayerPolicy, Policy, Selection, TokenPolicy

__all__ = ["Served", "serve"]


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


def serve(
    model: VisionLanguageModel,
    prompt: Prompt,
    policy: Policy,
    ratio: float,
    *,
    room: int = 0,
    on_phase: Callable[[str], None] = lambda _name: None,
) -> Served:
    """Answer-ready state of a prompt under a policy.

    Args:
        ratio: refresh ratio r in 0..1; the policy turns it into a budget.
        room: slots to reserve for decoding.
        on_phase: told the name of each stage as it begins.
    """
    run = _Run(model, prompt, policy, on_phase)
    return run.serve(ratio, room)


class _Run:
    """The state of one `serve`: timings and FLOPs accumulate while stages go by."""

    def __init__(
        self, model: VisionLanguageModel, prompt: Prompt, policy: Policy, on_phase: Callable[[str], None]
    ) -> None:
        self.model, self.prompt, self.policy, self.on_phase = model, prompt, policy, on_phase
        self.timings: dict[str, float] = {}
        self.flops = 0

    def serve(self, ratio: float, room: int) -> Served:
        model, prompt, policy = self.model, self.prompt, self.policy
        cache = model.decoder.new_cache(len(prompt) + room)
        cache.length = len(prompt)
        norms = value_norms(prompt)
        attention: Tensor | None = None
        if isinstance(policy, LayerPolicy):
            hidden, selection, rows = self.by_layer(policy, ratio, cache)
        else:
            assert isinstance(policy, TokenPolicy)
            hidden, selection, attention, rows = self.by_token(policy, ratio, cache, norms)
        with self.stage("first_token"):
            logits = model.decoder.logits(hidden[-1:])[0]
        return Served(
            logits=logits,
            cache=cache,
            selection=selection,
            attention=attention,
            norms=norms,
            rows_per_layer=rows,
            flops=self.flops + 2 * model.decoder.head_weights,
            full_flops=full_prefill_flops(model.decoder, len(prompt)),
            timings=self.timings,
        )

    def by_token(
        self, policy: TokenPolicy, ratio: float, cache: PromptCache, norms: Tensor
    ) -> tuple[Tensor, Selection, Tensor | None, tuple[int, ...]]:
        """Place, score where the policy asks for it, select, refresh."""
        prompt = self.prompt
        sizes = torch.bincount(prompt.page_of, minlength=len(prompt.states)).tolist()
        budget = policy.budget(ratio, sizes)
        hidden: Tensor | None = None
        attention: Tensor | None = None
        if budget < len(prompt.visual_slots) or policy.needs_scoring:
            self.place(cache)
        if policy.needs_scoring:
            with self.stage("score"), self.counting(cache):
                hidden, attention = score(self.model, prompt, cache, policy.span)
        with self.stage("select"):
            selection = policy.select(Evidence(prompt.page_of, norms, attention, ratio, budget))
        rows = self.rows_to_refresh(selection, scored=hidden is not None, between=policy.between)
        before = cache.rows_written
        if len(rows):
            with self.stage("refresh"), self.counting(cache):
                hidden = forward_rows(self.model, prompt, cache, rows)
        text = int((prompt.image_of[rows] < 0).sum())
        assert hidden is not None  # either pass ends on the prompt's last row
        return hidden, selection, attention, _visual_rows(cache, before, text)

    def by_layer(
        self, policy: LayerPolicy, ratio: float, cache: PromptCache
    ) -> tuple[Tensor, Selection, tuple[int, ...]]:
        """Place, then one pass over all text and a shrinking set of visual tokens."""
        self.place(cache)
        before = cache.rows_written
        with self.stage("refresh"), self.counting(cache):
            hidden, selection = refresh_by_layer(self.model, self.prompt, cache, policy, ratio)
        return hidden, selection, _visual_rows(cache, before, len(self.prompt.text_slots))

    def place(self, cache: PromptCache) -> None:
        with self.stage("place"):
            place(self.model.decoder, self.prompt, cache)

    def rows_to_refresh(self, selection: Selection, *, scored: bool, between: bool) -> Tensor:
        """Slots of the refresh pass: chosen visual tokens, and the text that saw stale ones.

        After a scoring pass the text before the first image is already exact, and with nothing chosen
        so is all of it; without a scoring pass no text has been computed yet.
        """
        prompt = self.prompt
        chosen = prompt.visual_slots[selection.chosen]
        text = prompt.text_slots
        if scored:
            stale = prompt.stale_text if between else prompt.query_span
            text = stale if len(chosen) else text[:0]
        return torch.cat([chosen, text]).sort().values

    @contextmanager
    def counting(self, cache: PromptCache) -> Iterator[None]:
        """Add the FLOPs of the rows that are written meanwhile."""
        before = cache.rows_written
        yield
        self.flops += pass_flops(self.model.decoder, _rows_since(cache, before), len(self.prompt))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.on_phase(name)
        start = time.perf_counter()
        yield
        if self.model.decoder.device.type == "cuda":
            torch.cuda.synchronize()
        self.timings[name] = time.perf_counter() - start


def _rows_since(cache: PromptCache, before: tuple[int, ...]) -> tuple[int, ...]:
    """Rows of each layer that were written since `before`."""
    return tuple(now - then for now, then in zip(cache.rows_written, before, strict=True))


def _visual_rows(cache: PromptCache, before: tuple[int, ...], text: int) -> tuple[int, ...]:
    """The same less the text rows, which every layer had."""
    return tuple(max(0, rows - text) for rows in _rows_since(cache, before))
