"""Sentences and numbers that the terminal, the PNG and the HTML share."""

from __future__ import annotations

from conduit_cli.inspection.geometry import TokenGrid
from conduit_cli.inspection.model import Inspection, Layer, PageView
from conduit_cli.reports import Answer

__all__ = [
    "LAYER_TITLES",
    "budget_line",
    "grid_lines",
    "grid_title",
    "how",
    "number",
    "page_line",
    "percent",
    "unplaced_title",
]

LAYER_TITLES: dict[Layer, str] = {
    "score": "score ŝ = what tokens are ranked by",
    "depth": "number of layers that recomputed the token",
    "attention": "attention of the question, mean over layers",
    "value norm": "norm of the stored value, mean over layers",
}


def number(value: float | None) -> str:
    """Three significant digits; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:.3g}" if not value or abs(value) >= 1e-2 else f"{value:.2e}".replace("e-0", "e-")


def percent(share: float) -> str:
    """`12 %`, with a decimal below ten."""
    return f"{share:.0%}" if share >= 0.0995 or not share else f"{share:.1%}"


def how(answer: Answer) -> str:
    """Policy, its options and ratio: `conduit (lambda 1), ratio 0.1`."""
    options = ", ".join(f"{name} {_plain(value)}" for name, value in answer.policy_options.items() if value is not None)
    return f"{answer.policy}{f' ({options})' if options else ''}, ratio {answer.ratio:g}"


def budget_line(inspection: Inspection) -> str:
    """The whole answer's budget in one clause."""
    tokens = inspection.answer.tokens
    return f"{tokens.refreshed} of {tokens.visual} visual tokens refreshed, {tokens.reused} reused"


def page_line(page: PageView) -> str:
    """One page's share in one clause."""
    share = page.share
    if page.depth is not None:
        return (
            f"{len(share.refreshed)} of {share.tokens} tokens recomputed in some layer: {percent(share.page_share)} "
            f"of the page's work, {percent(share.budget_share)} of the budget"
        )
    return (
        f"{len(share.refreshed)} of {share.tokens} tokens refreshed: "
        f"{percent(share.page_share)} of the page, {percent(share.budget_share)} of the budget"
    )


def grid_title(grid: TokenGrid) -> str:
    """`tiles: 32 x 48 tokens`."""
    return f"{grid.name}: {len(grid.rows)} x {len(grid.columns)} tokens"


def unplaced_title(page: PageView) -> str:
    """How many tokens are in no grid; empty where none is."""
    count = len(page.unplaced)
    if not count:
        return ""
    return f"{count} {'token has' if count == 1 else 'tokens have'} no place on the page (ends of rows, marks)"


def grid_lines(page: PageView) -> list[str]:
    """One line for each grid, and one for tokens that are in none; nothing where one grid has all."""
    chosen = set(page.share.refreshed)
    lines = [f"{grid_title(grid)}, {len(grid.held(chosen))} refreshed" for grid in page.grids if grid.tokens]
    if page.unplaced:
        lines.append(f"{unplaced_title(page)}, {len(chosen.intersection(page.unplaced))} refreshed")
    return lines if len(lines) > 1 or page.unplaced else []


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
