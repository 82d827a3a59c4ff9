"""CONDUIT (arXiv 2609.05821): attention times cached value norm times image coefficient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from conduit_cli.errors import UsageError
from conduit_cli.policies._settings import chosen_layers, fraction, switch, whole
from conduit_cli.policies.base import Evidence, Selection, TokenPolicy, top_k

__all__ = ["Conduit"]


class Conduit(TokenPolicy):
    """One global top-k over all images by s_t * c_j (METHOD.md section 4).

    s_t = mean_l(A_l(t) * ||V_l(t)||), multiplied per layer and then averaged.
    g_j = mean over the image's tokens and over layers of A_l(t), in the paper; the authors' code takes
    it from s_t. c_j = (1 - lambda) + lambda * g_j / mean(g); with one image c is 1.

    Args:
        lambda_: amplification strength, 0 (off) to 1 (the paper's).
        coefficient: what g_j is averaged from: `attention` (paper) or `score` (the authors' code).
        norm: whether the value norm takes part; without it s_t is the mean attention.
        layers: which layers the means go over: `all` (paper), `upper` (half), or numbers such as `0-3,8`.
        span: how many of the last text tokens count as the query; None takes all after the last image.
        between: whether text between images is recomputed after the scoring pass; the authors' code recomputes
            the query span only.
    """

    name = "conduit"

    def __init__(
        self,
        lambda_: float = 1.0,
        coefficient: str = "attention",
        norm: bool = True,
        layers: str = "all",
        span: int | None = None,
        between: bool = True,
    ) -> None:
        if coefficient not in ("attention", "score"):
            raise UsageError(f"coefficient is {coefficient!r}, but can be attention or score")
        self.lambda_ = fraction("lambda", lambda_)
        self.coefficient, self.layers = coefficient, str(layers)
        self.norm, self.between = switch("norm", norm), switch("between", between)
        self.span = whole("span", span)

    @property
    def options(self) -> Mapping[str, Any]:
        """The settings in force."""
        return {
            "lambda": self.lambda_,
            "coefficient": self.coefficient,
            "norm": self.norm,
            "layers": self.layers,
            "span": self.span,
            "between": self.between,
        }

    def select(self, evidence: Evidence) -> Selection:
        """Rank all visual tokens of all images together and take the budget's worth."""
        attention = chosen_layers(self.layers, evidence.scored)
        norms = chosen_layers(self.layers, evidence.value_norms)
        mean_attention = attention.mean(0)
        scores = (attention * norms).mean(0) if self.norm else mean_attention
        source = mean_attention if self.coefficient == "attention" else scores
        coefficients = self._coefficients(source, evidence)
        scores = scores * coefficients[evidence.page_of]
        return Selection(top_k(scores, evidence.budget), scores, coefficients)

    def _coefficients(self, source: Tensor, evidence: Evidence) -> Tensor:
        """c_j [K] from a per-token quantity [N_vis]."""
        sums = source.new_zeros(evidence.pages).index_add_(0, evidence.page_of, source)
        g = sums / torch.bincount(evidence.page_of, minlength=evidence.pages)
        mean = g.mean()
        if not mean > 0:
            return torch.ones_like(g)
        return (1 - self.lambda_) + self.lambda_ * g / mean
