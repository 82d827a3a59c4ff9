"""What a policy sees and what it returns.

Two kinds: a `TokenPolicy` chooses tokens once and they are recomputed at every layer; a `LayerPolicy`
recomputes a set of tokens that shrinks from layer to layer, judging them by what the pass itself finds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import torch
from torch import Tensor

__all__ = ["Evidence", "LayerPolicy", "LayerView", "Policy", "Selection", "TokenPolicy", "budget_of", "top_k"]


@dataclass(frozen=True)
class Evidence:
    """Everything that a token policy may look at for one prompt.

    Attributes:
        page_of: [N_vis] image index of each visual token, in prompt order.
        value_norms: [L, N_vis] cached value norms.
        attention: [L, N_vis] mean attention A_l(t) of the query span, or None if the policy asked for no
            scoring pass.
        ratio: refresh ratio r.
        budget: how many visual tokens may be refreshed at it.
    """

    page_of: Tensor
    value_norms: Tensor
    attention: Tensor | None
    ratio: float
    budget: int

    @property
    def pages(self) -> int:
        """Number of images K."""
        return int(self.page_of.max()) + 1 if len(self.page_of) else 0

    @property
    def scored(self) -> Tensor:
        """The attention [L, N_vis], where the policy relies on it.

        Raises:
            ValueError: no scoring pass was run.
        """
        if self.attention is None:
            raise ValueError("this policy needs the attention of a scoring pass")
        return self.attention


@dataclass(frozen=True)
class LayerView:
    """What a layer policy may look at after one layer of its pass.

    Attributes:
        layer: the layer that was just computed, from 0.
        active: [n] indices of the visual tokens that were recomputed in it, ascending.
        keys, values: [H_kv, n, d] as just computed (keys after rotary embedding).
        stale_keys, stale_values: the same as they were placed from the store.
        attention: [n] A_l(t), averaged over all rows of the pass and over the query heads.
    """

    layer: int
    active: Tensor
    keys: Tensor
    values: Tensor
    stale_keys: Tensor
    stale_values: Tensor
    attention: Tensor


@dataclass(frozen=True)
class Selection:
    """A policy's choice.

    Attributes:
        chosen: [k] indices into the prompt's visual tokens, ascending.
        scores: [N_vis] what they were ranked by, or None.
        coefficients: [K] per-image coefficients, or None.
        depth: [N_vis] in how many layers a token was recomputed; None where chosen ones were in all.
    """

    chosen: Tensor
    scores: Tensor | None = None
    coefficients: Tensor | None = None
    depth: Tensor | None = None


class Policy(ABC):
    """One way to spend a refresh budget; `options` are its settings, for `--json`."""

    name: ClassVar[str]

    @property
    def options(self) -> Mapping[str, Any]:
        """The settings in force, by their public names."""
        return {}


class TokenPolicy(Policy):
    """Chooses tokens before the refresh.

    Attributes:
        needs_scoring: whether `Evidence.attention` is wanted: costs one forward of the text tokens.
        span: how many of the query span's last tokens are asked where they look; None means all.
        between: whether the text between images is recomputed along with the refresh; without it r = 1 is not
            quite full prefill.
    """

    needs_scoring: ClassVar[bool] = True
    span: int | None = None
    between: bool = True

    def budget(self, ratio: float, sizes: Sequence[int]) -> int:
        """How many visual tokens to refresh at this ratio; `sizes` are the pages' tokens."""
        return budget_of(ratio, sum(sizes))

    @abstractmethod
    def select(self, evidence: Evidence) -> Selection:
        """Choose at most `evidence.budget` tokens."""


class LayerPolicy(Policy):
    """Recomputes a set of tokens that shrinks while the layers go by; there is no scoring pass."""

    needs_attention: ClassVar[bool] = False
    """Whether `LayerView.attention` is wanted: costs a second look at every layer's attention."""

    @abstractmethod
    def schedule(self, ratio: float, tokens: int, layers: int) -> list[int]:
        """How many of `tokens` visual tokens are recomputed in each layer, never more than in the one before."""

    @abstractmethod
    def rank(self, view: LayerView) -> Tensor:
        """[n] worth of each active token; the highest stay where the next layer has room for fewer.

        Before the first layer nothing is known yet: a schedule that begins below all tokens begins with the
        prompt's first ones.
        """


def budget_of(ratio: float, tokens: int) -> int:
    """floor(ratio * tokens), with the ratio taken as the decimal that the user typed."""
    return math.floor(Fraction(str(ratio)) * tokens)


def top_k(scores: Tensor, k: int) -> Tensor:
    """Ascending indices of the k largest of scores [N]; of equal ones the earlier win."""
    order = torch.sort(scores, descending=True, stable=True).indices[:k]
    return order.sort().values
