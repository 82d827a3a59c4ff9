"""The steps that bring one prompt to its first token, each over the cache that the ones before left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from conduit_cli.engine.flops import pass_flops
from conduit_cli.engine.layerwise import refresh_by_layer
from conduit_cli.engine.passes import forward_rows, score, value_norms
from conduit_cli.engine.place import place
from conduit_cli.engine.prompt import Prompt
from conduit_cli.engine.vlm import VisionLanguageModel
from conduit_cli.policies.base import Evidence, LayerPolicy, Selection, TokenPolicy

__all__ = ["Steps"]


class Steps:
    """One prompt's cache and what is done to it; `serve` decides which steps are taken.

    Args:
        room: slots to reserve for decoding.
        on_phase: told the name of each stage as it begins.

    Attributes:
        cache: the prompt's K/V so far.
        written: per layer, how many rows have been computed into it.
        flops: of the steps taken.
        timings: seconds per stage.
    """

    def __init__(
        self,
        model: VisionLanguageModel,
        prompt: Prompt,
        *,
        room: int = 0,
        on_phase: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self.model, self.prompt, self.on_phase = model, prompt, on_phase
        self.cache = model.decoder.new_cache(len(prompt) + room)
        self.cache.length = len(prompt)
        self.written = self.cache.rows_written
        self.flops = 0
        self.timings: dict[str, float] = {}

    def norms(self) -> Tensor:
        """Cached value norms [L, N_vis]."""
        return value_norms(self.prompt)

    def place(self) -> None:
        """Write every page's stored state at its place."""
        with self._stage("place"):
            place(self.model.decoder, self.prompt, self.cache)

    def score(self, span: int | None) -> tuple[Tensor, Tensor]:
        """One pass of all text: hidden [1, hidden] of the last row, and attention [L, N_vis] of the query span."""
        with self._stage("score"), self._counting():
            return score(self.model, self.prompt, self.cache, span)

    def select(self, policy: TokenPolicy, evidence: Evidence) -> Selection:
        """The policy's choice."""
        with self._stage("select"):
            return policy.select(evidence)

    def refresh(self, rows: Tensor) -> Tensor:
        """Recompute the slots `rows` [R] in every layer: hidden [1, hidden] of the last one."""
        with self._stage("refresh"), self._counting():
            return forward_rows(self.model, self.prompt, self.cache, rows)

    def refresh_by_layer(self, policy: LayerPolicy, schedule: Sequence[int]) -> tuple[Tensor, Selection]:
        """Recompute all text and a set of visual tokens that shrinks: hidden [1, hidden], and how deep each went."""
        with self._stage("refresh"), self._counting():
            return refresh_by_layer(self.model, self.prompt, self.cache, policy, schedule)

    def first_token(self, hidden: Tensor) -> Tensor:
        """Logits [vocab] of the first answer token from the last row's hidden state [1, hidden]."""
        with self._stage("first_token"):
            self.flops += 2 * self.model.decoder.head_weights
            return self.model.decoder.logits(hidden)[0]

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """Add the FLOPs of the rows that are written meanwhile."""
        yield
        rows = [now - then for now, then in zip(self.cache.rows_written, self.written, strict=True)]
        self.flops += pass_flops(self.model.decoder, rows, len(self.prompt))
        self.written = self.cache.rows_written

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        self.on_phase(name)
        start = time.perf_counter()
        yield
        if self.model.decoder.device.type == "cuda":
            torch.cuda.synchronize()
        self.timings[name] = time.perf_counter() - start
