"""ProphetKV (arXiv 2602.02579): the question's attention alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conduit_cli.policies._settings import whole
from conduit_cli.policies.base import Evidence, Selection, TokenPolicy, top_k

__all__ = ["Attention"]


class Attention(TokenPolicy):
    """s_t = mean_l A_l(t), one global top-k; no value norm and no image coefficient.

    The paper's own default ratio is 20 %. Known from notes about the paper, not from its text: whether it
    averages over layers before or after its fusion of two passes is uncertain.

    Args:
        span: how many of the last text tokens count as the query; None takes all after the last image.
    """

    name = "attention"

    def __init__(self, span: int | None = None) -> None:
        self.span = whole("span", span)

    @property
    def options(self) -> Mapping[str, Any]:
        """The settings in force."""
        return {"span": self.span}

    def select(self, evidence: Evidence) -> Selection:
        """Take the tokens that the question looks at most."""
        scores = evidence.scored.mean(0)
        return Selection(top_k(scores, evidence.budget), scores)
