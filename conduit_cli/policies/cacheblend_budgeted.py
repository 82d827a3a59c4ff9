"""CacheBlend within a budget, as CONDUIT compares it: a set that shrinks in every layer."""

from __future__ import annotations

from torch import Tensor

from conduit_cli.policies._schedules import shrinking_schedule
from conduit_cli.policies.base import LayerPolicy, LayerView

__all__ = ["CacheBlendBudgeted"]


class CacheBlendBudgeted(LayerPolicy):
    """n_l = N * max(0, 1 - l/h); the survivors are those with the largest ||dK||_2 + ||dV||_2.

    h makes the mean over layers the budget (arXiv 2609.05821, its comparison). In layer 0 no key and no value
    can have moved, since there they depend on the token's own embedding only; what is left out after it are
    the prompt's last tokens, for want of a better rule.
    """

    name = "cacheblend-budgeted"

    def schedule(self, ratio: float, tokens: int, layers: int) -> list[int]:
        """See `shrinking_schedule`."""
        return shrinking_schedule(ratio, tokens, layers)

    def rank(self, view: LayerView) -> Tensor:
        """Norms over heads and head size together."""
        if view.layer == 0:
            return -view.active.float()
        keys = (view.keys.float() - view.stale_keys.float()).square().sum((0, 2)).sqrt()
        values = (view.values.float() - view.stale_values.float()).square().sum((0, 2)).sqrt()
        return keys + values
