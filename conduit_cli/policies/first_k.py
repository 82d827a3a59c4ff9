"""MPIC and EPIC (arXiv 2502.01960, 2410.15332): the first tokens of every image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import torch

from conduit_cli.policies._settings import whole
from conduit_cli.policies.base import Evidence, Selection, TokenPolicy

__all__ = ["FirstK"]


class FirstK(TokenPolicy):
    """All text and the first ceil(r * n_j) tokens of each image, or the first k; one pass, no scoring.

    The idea: a chunk that was prefilled alone has its attention sink in its first tokens, which are no
    sink where the chunk stands behind others. Rounding up per image spends up to K tokens more than
    floor(r * N_vis).

    Args:
        k: tokens of each image whatever the ratio (the papers use 32); None takes the ratio's share.
    """

    name = "first-k"
    needs_scoring = False

    def __init__(self, k: int | None = None) -> None:
        self.k = whole("k", k, least=0)

    @property
    def options(self) -> Mapping[str, Any]:
        """The settings in force."""
        return {"k": self.k}

    def budget(self, ratio: float, sizes: Sequence[int]) -> int:
        """Sum of the images' shares."""
        return sum(self._share(ratio, size) for size in sizes)

    def select(self, evidence: Evidence) -> Selection:
        """The first tokens of each image, in reading order."""
        pages = [(evidence.page_of == image).nonzero()[:, 0] for image in range(evidence.pages)]
        return Selection(torch.cat([page[: self._share(evidence.ratio, len(page))] for page in pages]))

    def _share(self, ratio: float, size: int) -> int:
        return min(self.k, size) if self.k is not None else math.ceil(Fraction(str(ratio)) * size)
