"""Control: the cached value norm alone, without the question."""

from __future__ import annotations

from conduit_cli.policies.base import Evidence, Selection, TokenPolicy, top_k

__all__ = ["ValueNorm"]


class ValueNorm(TokenPolicy):
    """s_t = mean_l ||V_l(t)||, one global top-k (a control of CONDUIT's, appendix D.3)."""

    name = "value-norm"
    needs_scoring = False

    def select(self, evidence: Evidence) -> Selection:
        """Take the tokens with the largest stored values."""
        scores = evidence.value_norms.mean(0)
        return Selection(top_k(scores, evidence.budget), scores)
