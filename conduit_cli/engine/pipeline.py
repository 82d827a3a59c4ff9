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
from conduit_cli.engine.passes import forward_rows, score, value_norms
from conduit_cli.engine.place import place
from conduit_cli.engine.prompt import Prompt
from conduit_cli.engine.vlm import VisionLanguageModel
from conduit_cli.policies.base import Evidence, Policy, Selection

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
        refreshed: visual rows that the model recomputed, counted from the rows it was given.
        flops, full_flops: of the passes run, and of a full prefill of the same prompt.
        timings: seconds per stage.
    """

    logits: Tensor
    cache: PromptCache
    selection: Selection
    attention: Tensor | None
    norms: Tensor
    refreshed: int = 0
    flops: int = 0
    full_flops: int = 0
    timings: dict[str, float] = field(default_factory=dict)


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
        model, prompt = self.model, self.prompt
        tokens = len(prompt.visual_slots)
        budget = self.policy.budget(ratio, tokens)
        cache = model.decoder.new_cache(len(prompt) + room)
        cache.length = len(prompt)
        hidden: Tensor | None = None
        attention: Tensor | None = None
        if budget < tokens or self.policy.needs_scoring:
            with self.stage("place"):
                place(model.decoder, prompt, cache)
        norms = value_norms(prompt)
        if self.policy.needs_scoring:
            with self.stage("score"):
                hidden, attention = score(model, prompt, cache)
                self.count(len(prompt.text_slots))
        with self.stage("select"):
            selection = self.policy.select(Evidence(prompt.page_of, norms, attention, budget))
        rows = self.rows_to_refresh(selection, scored=hidden is not None)
        if len(rows):
            with self.stage("refresh"):
                hidden = forward_rows(model, prompt, cache, rows)
                self.count(len(rows))
        assert hidden is not None  # either pass ends on the prompt's last row
        with self.stage("first_token"):
            logits = model.decoder.logits(hidden[-1:])[0]
        return Served(
            logits=logits,
            cache=cache,
            selection=selection,
            attention=attention,
            norms=norms,
            refreshed=int((prompt.image_of[rows] >= 0).sum()),
            flops=self.flops + 2 * model.decoder.head_weights,
            full_flops=full_prefill_flops(model.decoder, len(prompt)),
            timings=self.timings,
        )

    def rows_to_refresh(self, selection: Selection, *, scored: bool) -> Tensor:
        """Slots of the refresh pass: chosen visual tokens, and the text that saw stale ones.

        After a scoring pass the text before the first image is already exact, and with nothing chosen
        so is all of it; without a scoring pass no text has been computed yet.
        """
        prompt = self.prompt
        chosen = prompt.visual_slots[selection.chosen]
        text = prompt.text_slots
        if scored:
            text = prompt.stale_text if len(chosen) else text[:0]
        return torch.cat([chosen, text]).sort().values

    def count(self, rows: int) -> None:
        self.flops += pass_flops(self.model.decoder, rows, len(self.prompt))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.on_phase(name)
        start = time.perf_counter()
        yield
        if self.model.decoder.device.type == "cuda":
            torch.cuda.synchronize()
        self.timings[name] = time.perf_counter() - start
