"""Steps that several cells of one question have in common are taken once.

Every cell runs through the engine's own `serve`. Only where the same step over the same cache was taken before, for
another policy or ratio, are its outcome and what it cost looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from conduit_cli.bench.asking import bytes_read
from conduit_cli.engine.backend import PromptCache
from conduit_cli.engine.prompt import Prompt
from conduit_cli.engine.steps import Steps
from conduit_cli.engine.vlm import VisionLanguageModel
from conduit_cli.policies.base import LayerPolicy, Selection

__all__ = ["Common", "SharedSteps"]

Path = tuple[Hashable, ...]
"""What a cache went through since it was empty: two of the same path hold the same K/V, bit for bit."""


@dataclass(frozen=True)
class _Taken:
    """A step's outcome, what it cost, and the cache that it left, where more than one step may follow."""

    outcome: Any
    written: tuple[int, ...]
    flops: int
    counted: int
    nbytes: int
    cache: PromptCache | None


@dataclass
class Common:
    """What the cells of one question share.

    Attributes:
        count: whether FLOPs are counted operation by operation.
        taken: steps by the path that they lead to and what they were.
        answers: whatever follows from a path alone, by it; filled by who measures.
    """

    count: bool = False
    taken: dict[tuple[Path, Hashable], _Taken] = field(default_factory=dict)
    answers: dict[Path, Any] = field(default_factory=dict)


class SharedSteps(Steps):
    """The engine's steps, none of them taken twice for one question. Its `timings` say nothing.

    The caches after `place` and `score` are kept for other policies, those after a refresh are not: where one was
    looked up, `cache` is an older one, and what follows from it is in `Common.answers`.

    Attributes:
        path: what the cache has gone through.
        counted: FLOPs as torch counts them, of a complete serve; 0 where they are not counted.
        nbytes: bytes of page states that a complete serve reads.
    """

    def __init__(self, model: VisionLanguageModel, prompt: Prompt, common: Common, *, room: int) -> None:
        super().__init__(model, prompt, room=room)
        self.common = common
        self.path: Path = ()
        self.counted = self.nbytes = 0
        self._kept = False

    def norms(self) -> Tensor:
        """As the engine's."""
        with self._costing():
            return super().norms()

    def place(self) -> None:
        """As the engine's, once."""
        self._once((*self.path, "placed"), "place", super().place, keep=True)

    def score(self, span: int | None) -> tuple[Tensor, Tensor]:
        """As the engine's, once for each span."""
        path = (*self.path, tuple(self.prompt.text_slots.tolist()))
        take = partial(super().score, span)
        scored: tuple[Tensor, Tensor] = self._once(path, ("score", span), take, keep=True)
        return scored

    def refresh(self, rows: Tensor) -> Tensor:
        """As the engine's, once for each set of rows; where it is all rows, whatever was there before."""
        slots = tuple(rows.tolist())
        path = (slots,) if len(slots) == len(self.prompt) else (*self.path, slots)
        hidden: Tensor = self._once(path, "refresh", partial(super().refresh, rows))
        return hidden

    def refresh_by_layer(self, policy: LayerPolicy, schedule: Sequence[int]) -> tuple[Tensor, Selection]:
        """As the engine's, once for each policy and schedule."""
        path = (*self.path, (policy.name, repr(policy.options), tuple(schedule)))
        take = partial(super().refresh_by_layer, policy, schedule)
        narrowed: tuple[Tensor, Selection] = self._once(path, "by layer", take)
        return narrowed

    def first_token(self, hidden: Tensor) -> Tensor:
        """As the engine's; the answer is then written into a cache of its own."""
        self._own_cache()
        with self._costing():
            return super().first_token(hidden)

    def _once(self, path: Path, step: Hashable, take: Callable[[], Any], *, keep: bool = False) -> Any:
        known = self.common.taken.get((path, step))
        if known is None:
            self._own_cache()
            flops, counted, nbytes = self.flops, self.counted, self.nbytes
            with self._costing():
                outcome = take()
            cost = self.flops - flops, self.counted - counted, self.nbytes - nbytes
            known = _Taken(outcome, self.written, *cost, self.cache if keep else None)
            self.common.taken[path, step] = known
        else:
            self.written = known.written
            self.flops += known.flops
            self.counted += known.counted
            self.nbytes += known.nbytes
            if known.cache is not None:
                self.cache = known.cache
        self.path, self._kept = path, keep
        return known.outcome

    def _own_cache(self) -> None:
        """Leave a kept cache to those that go on from it."""
        if self._kept:
            self.cache, self._kept = self.cache.copy(), False

    @contextmanager
    def _costing(self) -> Iterator[None]:
        """Add what is counted and read meanwhile."""
        before = bytes_read(self.prompt)
        counter = FlopCounterMode(display=False)
        with counter if self.common.count else nullcontext():
            yield
        self.nbytes += bytes_read(self.prompt) - before
        self.counted += counter.get_total_flops() if self.common.count else 0
