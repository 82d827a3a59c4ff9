"""Where an answer's refresh budget and attention went, page by page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from conduit_cli.engine.pipeline import Served
from conduit_cli.engine.prompt import Prompt
from conduit_cli.reports import PageShare
from conduit_cli.session.pages import PageRef

__all__ = ["overlap_of", "page_shares"]


def page_shares(pages: Sequence[PageRef], prompt: Prompt, served: Served) -> tuple[PageShare, ...]:
    """One record per page, in prompt order; shares of the budget and of attention each sum to 1."""
    page_of = prompt.page_of
    work = _layers_recomputed(prompt, served)
    attention = None if served.attention is None else served.attention.mean(0)
    total = None if attention is None else float(attention.sum())
    shares = []
    for image, ref in enumerate(pages):
        own = (page_of == image).nonzero()[:, 0]
        coefficients = served.selection.coefficients
        grid = prompt.states[image].meta["grid"]
        shares.append(
            PageShare(
                document=ref.document.name,
                page=ref.number,
                tokens=len(own),
                grid=(int(grid[0]), int(grid[1])) if grid else None,
                coefficient=None if coefficients is None else float(coefficients[image]),
                attention=None if attention is None or not total else float(attention[own].sum()) / total,
                budget_share=float(work[own].sum() / work.sum().clamp(min=1)),
                page_share=float(work[own].mean()) / len(served.norms),
                refreshed=tuple((work[own] > 0).nonzero()[:, 0].tolist()),
                cached=ref.report.status == "present",
            )
        )
    return tuple(shares)


def _layers_recomputed(prompt: Prompt, served: Served) -> Tensor:
    """[N_vis] in how many layers each visual token was recomputed."""
    selection = served.selection
    if selection.depth is not None:
        return selection.depth.float()
    work = torch.zeros(len(prompt.page_of), device=prompt.page_of.device)
    work[selection.chosen] = len(served.norms)
    return work


def overlap_of(first: Iterable[int], second: Iterable[int]) -> float:
    """Intersection over union of two sets of tokens; 1 where both are empty."""
    a, b = set(first), set(second)
    return len(a & b) / len(a | b) if a | b else 1.0
