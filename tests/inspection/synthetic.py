"""Inspections of any size without a model: drawn numbers, but shares, ranks and sets that belong together."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from PIL import Image, ImageDraw

from conduit_cli.families.tiling import tile_grids
from conduit_cli.inspection.geometry import TokenGrid
from conduit_cli.inspection.model import Inspection, PageView, rounded
from conduit_cli.reports import Answer, PageShare, TokenCounts

__all__ = ["made", "noisy_page"]


def made(
    pages: int, grid: tuple[int, int] | tuple[TokenGrid, ...], *, tokens: int | None = None, layers: int = 4,
    ratio: float = 0.1, answer: str = "4820", question: str = "What is the total?", document: str = "made.pdf",
    label: str | None = None, seed: int = 0,
) -> Inspection:  # fmt: skip
    """An answer over `pages` pages of `grid` tokens, or of the tokens of several grids and others, `tokens` in all."""
    rng = np.random.default_rng(seed)
    grids = tuple(one for one in grid if isinstance(one, TokenGrid)) or tile_grids(1, 1, grid)  # type: ignore[arg-type]
    count = tokens or sum(len(one.tokens) for one in grids)
    single = (len(grids[0].rows), len(grids[0].columns)) if len(grids) == 1 else None
    scores = rng.pareto(2.0, (pages, count)) * 1e-3
    order = np.argsort(-scores.ravel(), kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(order.size)
    ranks = ranks.reshape(pages, count)
    budget = int(ratio * order.size)
    heat = rng.random((pages, layers))
    views = []
    for page in range(pages):
        chosen = tuple(int(token) for token in np.nonzero(ranks[page] < budget)[0])
        share = PageShare(
            document=document, page=page + 1, tokens=count, grid=single, coefficient=1.0, attention=1 / pages,
            budget_share=len(chosen) / max(1, budget), page_share=len(chosen) / count, refreshed=chosen, cached=True,
        )  # fmt: skip
        views.append(
            PageView(
                share=share,
                label=label or document,
                grids=grids,
                mean_attention=float(f"{scores[page].mean():.5g}"),
                scores=rounded(scores[page].tolist()),
                ranks=tuple(ranks[page].tolist()),
                attention_of_tokens=rounded((scores[page] / 12).tolist()),
                value_norms=rounded(rng.normal(14, 1, count).tolist()),
                depth=None,
                layer_attention=rounded((heat[page] / heat.sum(0)).tolist()),
            )
        )
    counts = TokenCounts(pages * count, pages * count - budget, budget, 40, 4)
    shares = tuple(view.share for view in views)
    told = Answer(answer, question, "made", "conduit", {"lambda": 1.0}, ratio, None, 1.0, 0.2, counts, shares)
    return Inspection(told, tuple(views), layers)


def noisy_page(width: int, height: int) -> Callable[[int, int], Image.Image]:
    """Draws pages that compress badly, like scans: print under noise. There are two, and they take turns."""

    @cache
    def draw(index: int, longest: int) -> Image.Image:
        rng = np.random.default_rng(index)
        scale = longest / max(width, height)
        page = Image.new("RGB", (round(width * scale), round(height * scale)), "white")
        pen = ImageDraw.Draw(page)
        for line in range(20, page.height - 20, 18):
            pen.text((20, line), f"page {index + 1}: " + "revenue and costs of the year " * 5, fill="black")
        speckle = rng.integers(-30, 31, (page.height, page.width, 1))
        return Image.fromarray((np.asarray(page) + speckle).clip(0, 255).astype(np.uint8))

    return lambda index, longest: draw(index % 2, longest).copy()
