"""Plain reuse: nothing is refreshed, every stored token is used as it is (r = 0)."""

from __future__ import annotations

from collections.abc import Sequence

from conduit_cli.policies.base import Evidence, Selection, TokenPolicy

__all__ = ["Reuse"]


class Reuse(TokenPolicy):
    """The lower end of the comparison: one pass over the text tokens and no refresh."""

    name = "reuse"

    def budget(self, ratio: float, sizes: Sequence[int]) -> int:
        """Nothing, whatever the ratio."""
        return 0

    def select(self, evidence: Evidence) -> Selection:
        """No token."""
        return Selection(evidence.page_of.new_empty(0))
