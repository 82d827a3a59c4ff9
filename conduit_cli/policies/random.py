"""Control: tokens drawn at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from conduit_cli.policies._settings import whole
from conduit_cli.policies.base import Evidence, Selection, TokenPolicy, top_k

__all__ = ["Random"]


class Random(TokenPolicy):
    """A uniform draw without replacement over all visual tokens (a control of CONDUIT's, appendix D.3).

    Args:
        seed: of the draw; the same prompt and seed give the same tokens.
    """

    name = "random"
    needs_scoring = False

    def __init__(self, seed: int = 0) -> None:
        self.seed = whole("seed", seed, least=0)

    @property
    def options(self) -> Mapping[str, Any]:
        """The settings in force."""
        return {"seed": self.seed}

    def select(self, evidence: Evidence) -> Selection:
        """Draw on the CPU, so that every device gives the same tokens."""
        generator = torch.Generator().manual_seed(self.seed or 0)
        scores = torch.rand(len(evidence.page_of), generator=generator).to(evidence.page_of.device)
        return Selection(top_k(scores, evidence.budget), scores)
