"""VLCache (arXiv 2512.12977): the earliest tokens, more of them in the lower layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from conduit_cli.errors import UsageError
from conduit_cli.policies._schedules import linear_schedule
from conduit_cli.policies.base import LayerPolicy, LayerView, budget_of

__all__ = ["VLCache"]


class VLCache(LayerPolicy):
    """The first r_l * N tokens of the whole visual segment in layer l; the r_l average to r.

    The paper takes r_l from a profile of each layer's sensitivity and spends 2 to 5 % on average; its
    formula was not found. Here the profile falls linearly from the first layer to the last, or is flat: a
    token can be recomputed in a layer only if it was in the one before, so no profile can rise.

    Args:
        profile: `linear` or `flat`.
    """

    name = "vlcache"

    def __init__(self, profile: str = "linear") -> None:
        if profile not in ("linear", "flat"):
            raise UsageError(f"profile is {profile!r}, but can be linear or flat")
        self.profile = profile

    @property
    def options(self) -> Mapping[str, Any]:
        """The settings in force."""
        return {"profile": self.profile}

    def schedule(self, ratio: float, tokens: int, layers: int) -> list[int]:
        """By the profile."""
        if self.profile == "flat":
            return [budget_of(ratio, tokens)] * layers
        return linear_schedule(ratio, tokens, layers)

    def rank(self, view: LayerView) -> Tensor:
        """Earlier is better."""
        return -view.active.float()
