"""What a policy sees and what it returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import torch
from torch import Tensor

__all__ = ["Evidence", "Policy", "Selection", "budget_of", "top_k"]


@dataclass(frozen=True)
class Evidence:
    """Everything a policy may look at for one prompt.

    Attributes:
        page_of: [N_vis] image index of each visual token, in prompt order.
        value_norms: [L, N_vis] cached value norms.
        attention: [L, N_vis] mean attention A_l(t) of the query span, or None if the policy asked for no
            scoring pass.
        budget: how many visual tokens may be refreshed.
    """

    page_of: Tensor
    value_norms: Tensor
    attention: Tensor | None
    budget: int

    @property
    def pages(self) -> int:
        """Number of images K."""
        return int(self.page_of.max()) + 1 if len(self.page_of) else 0


@dataclass(frozen=True)
class Selection:
    """A policy's choice.

    Attributes:
        chosen: [k] indices into the prompt's visual tokens, ascending.
        scores: [N_vis] what they were ranked by, or None.
        coefficients: [K] per-image coefficients, or None.
    """

    chosen: Tensor
    scores: Tensor | None = None
    coefficients: Tensor | None = None


class Policy(Protocol):
    """One way to spend a refresh budget."""

    name: str
    needs_scoring: bool
    """Whether `Evidence.attention` is wanted: costs one forward of the text tokens."""

    def budget(self, ratio: float, tokens: int) -> int:
        """How many of `tokens` visual tokens to refresh at this ratio."""

    def select(self, evidence: Evidence) -> Selection:
        """Choose at most `evidence.budget` tokens."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The settings in force, for `--json`."""


def budget_of(ratio: float, tokens: int) -> int:
    """floor(ratio * tokens), with the ratio taken as the decimal that the user typed."""
    return math.floor(Fraction(str(ratio)) * tokens)


def top_k(scores: Tensor, k: int) -> Tensor:
    """Ascending indices of the k largest of scores [N]; of equal ones the earlier win."""
    order = torch.sort(scores, descending=True, stable=True).indices[:k]
    return order.sort().values
