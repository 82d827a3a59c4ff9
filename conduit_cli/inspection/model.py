"""The data that every form of `conduit inspect` is drawn from, and that its `--json` prints in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from conduit_cli.inspection.geometry import TokenGrid
from conduit_cli.reports import Answer, PageShare

__all__ = ["Inspection", "Layer", "PageView", "Versus", "rounded"]

Layer = Literal["score", "depth", "attention", "value norm"]
"""A quantity that every visual token has one of."""

_DIGITS = 5


@dataclass(frozen=True, slots=True)
class PageView:
    """One page of an answer, token by token. Per-token tuples have n entries, in reading order.

    Attributes:
        share: what `conduit ask --json` says of the page: grid, coefficient c_j, refreshed positions, shares.
        label: the document's name, with as much of its path as tells it from the others.
        grids: where the tokens lie on the page, the finest grid first; at least one. A page that a model reads in
            tiles has `tiles` and `overview`, others have `page` alone.
        mean_attention: g_j, the mean over tokens and layers of the query span's attention; None without a
            scoring pass.
        scores: what the tokens were ranked by (ŝ, coefficient included), or None where no one ranking was made.
        ranks: place of each token in that ranking over all pages, from 0; of equal scores the earlier token
            comes first. The tokens refreshed at a budget of k are those of rank < k. None where another
            ratio's set doesn't follow from a ranking.
        attention_of_tokens: mean over layers of A_l(t), or None.
        value_norms: mean over layers of the stored value's 2-norm.
        depth: number of layers in which each token was recomputed, for policies that choose by layer.
        layer_attention: [L] the page's share of the query span's visual attention at each layer, or None.
        versus: positions that the other policy refreshed, or None where none was asked for.
        overlap: intersection over union of the two refreshed sets; 1 where both are empty.
    """

    share: PageShare
    label: str
    grids: tuple[TokenGrid, ...]
    mean_attention: float | None
    scores: tuple[float, ...] | None
    ranks: tuple[int, ...] | None
    attention_of_tokens: tuple[float, ...] | None
    value_norms: tuple[float, ...]
    depth: tuple[int, ...] | None
    layer_attention: tuple[float, ...] | None
    versus: tuple[int, ...] | None = None
    overlap: float | None = None

    @property
    def title(self) -> str:
        """`page 3 of report.pdf`."""
        return f"page {self.share.page} of {self.label}"

    @property
    def unplaced(self) -> list[int]:
        """Tokens that are in none of the grids, such as those that end a row of tiles."""
        return sorted(set(range(self.share.tokens)).difference(*(grid.tokens for grid in self.grids)))

    def values(self, layer: Layer) -> tuple[float, ...] | None:
        """A layer's number for each token, or None where the answer has none."""
        held: dict[Layer, tuple[float, ...] | None] = {
            "score": self.scores,
            "depth": self.depth,
            "attention": self.attention_of_tokens,
            "value norm": self.value_norms,
        }
        return held[layer]

    def to_dict(self) -> dict[str, Any]:
        """The share's fields and the view's own, in one flat record."""
        own = asdict(self)
        return {**own.pop("share"), **own}


@dataclass(frozen=True, slots=True)
class Versus:
    """A second policy on the same prompt.

    Attributes:
        answer: its answer.
        overlap: intersection over union of the two refreshed sets, all pages together.
    """

    answer: Answer
    overlap: float


@dataclass(frozen=True, slots=True)
class Inspection:
    """One answered question with everything that led to its refreshed set.

    Attributes:
        answer: the very object that `conduit ask` reports.
        pages: in prompt order.
        layers: decoder layers L.
        fixed_because: why another ratio's set can't be told from the ranking, or None where it can.
        compared: answers of other policies to the same prompt (`full`, `reuse`). They and `versus` find the pages
            loaded already, so that their times to the first token leave loading out.
        versus: a second policy whose selection is laid beside this one, or None.
    """

    answer: Answer
    pages: tuple[PageView, ...]
    layers: int
    fixed_because: str | None = None
    compared: tuple[Answer, ...] = ()
    versus: Versus | None = None

    @property
    def tokens(self) -> int:
        """N_vis: visual tokens of all pages."""
        return self.answer.tokens.visual

    @property
    def others(self) -> tuple[Answer, ...]:
        """Answers by other policies, the second selection's first."""
        return (*((self.versus.answer,) if self.versus else ()), *self.compared)

    @property
    def by_share(self) -> tuple[int, ...]:
        """Indices into `pages`, the largest share of the budget first; of equal ones the earlier page."""
        return tuple(
            sorted(range(len(self.pages)), key=lambda i: (-self.pages[i].share.budget_share, -self._attention(i), i))
        )

    @property
    def layer_names(self) -> tuple[Layer, ...]:
        """The layers that this answer has, the most telling first."""
        every: tuple[Layer, ...] = ("score", "depth", "attention", "value norm")
        return tuple(layer for layer in every if all(page.values(layer) is not None for page in self.pages))

    def values(self, layer: Layer) -> list[float]:
        """A layer's numbers of all pages in prompt order; empty where the answer has none."""
        return [value for page in self.pages for value in page.values(layer) or ()]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: all that `Answer.to_dict` has, pages extended by their tokens' numbers."""
        return {
            **self.answer.to_dict(),
            "pages": [page.to_dict() for page in self.pages],
            "layers": self.layers,
            "fixed_because": self.fixed_because,
            "compared": [_without_pages(answer) for answer in self.compared],
            "versus": None
            if self.versus is None
            else {**_without_pages(self.versus.answer), "overlap": self.versus.overlap},
        }

    def _attention(self, index: int) -> float:
        return self.pages[index].share.attention or 0.0


def rounded(values: Sequence[float]) -> tuple[float, ...]:
    """Five significant digits: enough to read, and a third of the bytes."""
    return tuple(float(f"{value:.{_DIGITS}g}") for value in values)


def _without_pages(answer: Answer) -> dict[str, Any]:
    return {name: value for name, value in answer.to_dict().items() if name != "pages"}
