"""Where an answer's refresh budget and attention went, page by page."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conduit_cli.engine.pipeline import Served
from conduit_cli.engine.prompt import Prompt
from conduit_cli.reports import PageShare
from conduit_cli.session.pages import PageRef

__all__ = ["page_shares"]


def page_shares(pages: Sequence[PageRef], prompt: Prompt, served: Served) -> tuple[PageShare, ...]:
    """One record per page, in prompt order; shares of the budget and of attention each sum to 1."""
    page_of, chosen = prompt.page_of, served.selection.chosen
    attention = None if served.attention is None else served.attention.mean(0)
    total = None if attention is None else float(attention.sum())
    shares = []
    for image, ref in enumerate(pages):
        own = (page_of == image).nonzero()[:, 0]
        refreshed = chosen[page_of[chosen] == image] - own[0]
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
                budget_share=len(refreshed) / max(1, len(chosen)),
                page_share=len(refreshed) / len(own),
                refreshed=tuple(torch.as_tensor(refreshed).tolist()),
                cached=ref.report.status == "present",
            )
        )
    return tuple(shares)
