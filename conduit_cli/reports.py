"""What the library returns: plain records that the commands print and `--json` dumps.

Nothing here computes; nothing here knows the terminal, torch or the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

__all__ = [
    "Answer",
    "IngestReport",
    "IngestedPage",
    "Listener",
    "PageShare",
    "TokenCounts",
]

PageStatus = Literal["stored", "present", "rebuilt", "unstored", "failed"]


@dataclass(frozen=True, slots=True)
class IngestedPage:
    """One page of an `ingest`.

    Attributes:
        document: the document's display name.
        page: page number, from 1.
        status: `stored` (prefilled and written), `present` (already there: no model forward,
            no byte written), `rebuilt` (a damaged entry was replaced), `unstored` (prefilled
            but not writable), `failed` (could not be rendered).
        tokens: visual tokens of the page; 0 if it failed.
        grid: token grid (rows, columns) after the merger, or None.
        nbytes: bytes written to disk for it in this run.
        seconds: wall time spent on it.
        key: the entry's 64-digit key, or None.
        notes: what a reader of the result should know (repaired, first frame only, blank page).
    """

    document: str
    page: int
    status: PageStatus
    tokens: int = 0
    grid: tuple[int, int] | None = None
    nbytes: int = 0
    seconds: float = 0.0
    key: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The outcome of one `ingest`: every page in order, and totals."""

    model: str
    store: str
    codec: str
    pages: tuple[IngestedPage, ...]

    @property
    def nbytes(self) -> int:
        """Bytes written to the store in this run."""
        return sum(page.nbytes for page in self.pages)

    def count(self, status: PageStatus) -> int:
        """How many pages ended with `status`."""
        return sum(page.status == status for page in self.pages)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-ready data."""
        return asdict(self) | {"nbytes": self.nbytes}


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of one answer, counted from the rows that the model really ran.

    `visual` = `reused` + `refreshed`; `text` are the prompt's text tokens; `generated` the answer's. Where a policy
    recomputes more in some layers than in others, `refreshed` is the mean over layers, rounded down.
    """

    visual: int
    reused: int
    refreshed: int
    text: int
    generated: int


@dataclass(frozen=True, slots=True)
class PageShare:
    """Where one page stands in an answer.

    Attributes:
        coefficient: c_j of the selection, or None where the policy has none.
        attention: the share of the query span's visual attention that fell on this page, or None.
        budget_share: the page's share of all refreshed tokens, 0 to 1.
        page_share: the share of the page's own tokens that were refreshed, 0 to 1.
        refreshed: refreshed positions within the page, 0 to tokens-1, in reading order; in any layer, where layers
            differ (the shares then weigh a token by its layers).
        cached: whether the page was in the store before this call.
    """

    document: str
    page: int
    tokens: int
    grid: tuple[int, int] | None
    coefficient: float | None
    attention: float | None
    budget_share: float
    page_share: float
    refreshed: tuple[int, ...]
    cached: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered question.

    Attributes:
        ttft_s: seconds from a loaded model and a question to the first token's logits, page loading
            included, ingest of missing pages excluded.
        flops_ratio: FLOPs of every pass up to the first token divided by those of a full prefill of
            the same prompt through the same decoder (vision tower not counted on either side).
        timings: seconds of each stage: load, place, score, select, refresh, first_token, decode.
        finish: `stop` (the model ended) or `length` (max_new_tokens reached).
        interrupted: the answer was cut by the caller.
    """

    answer: str
    question: str
    model: str
    policy: str
    policy_options: Mapping[str, Any]
    ratio: float
    seed: int | None
    ttft_s: float
    flops_ratio: float
    tokens: TokenCounts
    pages: tuple[PageShare, ...]
    timings: Mapping[str, float] = field(default_factory=dict)
    finish: Literal["stop", "length"] = "stop"

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready data."""
        return asdict(self)


class Listener:
    """What a caller may watch while the library works; every method does nothing here.

    Commands pass a subclass that draws; a library user may pass none.
    """

    def page(self, page: IngestedPage, done: int, total: int) -> None:
        """A page is finished: `done` of `total` in this call."""

    def phase(self, name: str) -> None:
        """A stage begins: `load model`, `ingest`, `place`, `score`, `refresh`, `decode`."""

    def note(self, text: str) -> None:
        """One sentence that the user should read once."""

    def text(self, piece: str) -> None:
        """The next piece of the answer, as it is decoded."""
