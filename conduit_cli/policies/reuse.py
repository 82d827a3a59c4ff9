"""Plain reuse: nothing is refreshed, every stored token is used as it is (r = 0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conduit_cli.policies.base import Evidence, Selection

__all__ = ["Reuse"]


class Reuse:
    """The lower end of the comparison: one pass over the text tokens and no refresh."""

    name = "reuse"
    needs_scoring = True

    @property
    def options(self) -> Mapping[str, Any]:
        """No settings."""
        return {}

    def budget(self, ratio: float, tokens: int) -> int:
        """Nothing, whatever the ratio."""
        return 0

    def select(self, evidence: Evidence) -> Selection:
        """No token."""
        return Selection(evidence.page_of.new_empty(0))
