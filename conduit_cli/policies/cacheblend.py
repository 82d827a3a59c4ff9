"""CacheBlend (arXiv 2405.16444): every token in the first layers, then those whose values moved most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from conduit_cli.errors import UsageError
from conduit_cli.policies._settings import whole
from conduit_cli.policies.base import LayerPolicy, LayerView, budget_of

__all__ = ["CacheBlend"]


class CacheBlend(LayerPolicy):
    """All tokens up to the check layer; later layers the floor(r * N) with the largest sum((V_new - V_old)^2).

    The first layers come on top of the budget, as in the original code. LMCache's version of it compares
    keys instead of values (`by="keys"`). With r = 0 nothing is recomputed at all, which the original does
    not provide for.

    Args:
        check: the layer after which tokens are chosen; at least 1, since in layer 0 no value can have moved.
        by: `values` (the paper) or `keys`.
    """

    name = "cacheblend"

    def __init__(self, check: int = 1, by: str = "values") -> None:
        if by not in ("values", "keys"):
            raise UsageError(f"by is {by!r}, but can be values or keys")
        self.check, self.by = whole("check", check) or 1, by

    @property
    def options(self) -> Mapping[str, Any]:
        """The settings in force."""
        return {"check": self.check, "by": self.by}

    def schedule(self, ratio: float, tokens: int, layers: int) -> list[int]:
        """Everything up to the check layer, the budget after it."""
        budget = budget_of(ratio, tokens)
        return [tokens if budget and layer <= self.check else budget for layer in range(layers)]

    def rank(self, view: LayerView) -> Tensor:
        """Squared change, summed over heads and head size."""
        new, old = (view.values, view.stale_values) if self.by == "values" else (view.keys, view.stale_keys)
        return (new.float() - old.float()).square().sum((0, 2))
