"""Full prefill: every token is recomputed in one pass, from the stored vision embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conduit_cli.policies.base import Evidence, Selection, TokenPolicy

__all__ = ["Full"]


class Full(TokenPolicy):
    """The upper end of the comparison, and the reference for every measured figure."""

    name = "full"
    needs_scoring = False

    def budget(self, ratio: float, sizes: Sequence[int]) -> int:
        """Everything, whatever the ratio."""
        return sum(sizes)

    def select(self, evidence: Evidence) -> Selection:
        """Every token."""
        return Selection(torch.arange(len(evidence.page_of), device=evidence.page_of.device))
