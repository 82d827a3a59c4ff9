"""Full prefill: every token is recomputed in one pass, from the stored vision embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from conduit_cli.policies.base import Evidence, Selection

__all__ = ["Full"]


class Full:
    """The upper end of the comparison, and the reference for every measured figure."""

    name = "full"
    needs_scoring = False

    @property
    def options(self) -> Mapping[str, Any]:
        """No settings."""
        return {}

    def budget(self, ratio: float, tokens: int) -> int:
        """Everything, whatever the ratio."""
        return tokens

    def select(self, evidence: Evidence) -> Selection:
        """Every token."""
        return Selection(torch.arange(len(evidence.page_of), device=evidence.page_of.device))
