"""KVShare within a budget, as CONDUIT compares it: attention times the change of the values."""

from __future__ import annotations

from torch import Tensor

from conduit_cli.policies._schedules import shrinking_schedule
from conduit_cli.policies.base import LayerPolicy, LayerView

__all__ = ["KVShare"]


class KVShare(LayerPolicy):
    """The shrinking set of `cacheblend-budgeted`; the survivors are those with the largest A_l(t) * ||dV||_1.

    A_l is averaged over all rows of the pass, question or not (arXiv 2609.05821, its comparison). In layer 0 no
    value can have moved, so that attention alone decides there.
    """

    name = "kvshare"
    needs_attention = True

    def schedule(self, ratio: float, tokens: int, layers: int) -> list[int]:
        """See `shrinking_schedule`."""
        return shrinking_schedule(ratio, tokens, layers)

    def rank(self, view: LayerView) -> Tensor:
        """The attention that a token gets, times how far its value moved."""
        if view.layer == 0:
            return view.attention
        moved = (view.values.float() - view.stale_values.float()).abs().sum((0, 2))
        return view.attention * moved
