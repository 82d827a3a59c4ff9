"""`conduit inspect` in a terminal: the table of pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from conduit_cli.inspection.model import Inspection, PageView
from conduit_cli.inspection.wording import number, percent

__all__ = ["table"]

_COLUMNS: dict[str, Callable[[PageView], str]] = {
    "page": lambda page: str(page.share.page),
    "tokens": lambda page: str(page.share.tokens),
    "attention g": lambda page: number(page.mean_attention),
    "c": lambda page: "–" if page.share.coefficient is None else f"{page.share.coefficient:.2f}",
    "refreshed": lambda page: str(len(page.share.refreshed)),
    "of budget": lambda page: percent(page.share.budget_share),
    "of page": lambda page: percent(page.share.page_share),
    "overlap": lambda page: percent(page.overlap or 0.0),
}
_DISPENSABLE = ("c", "attention g", "tokens", "overlap", "of page", "refreshed")
"""Columns that a narrow console goes without, the first of them first."""
_SHORTEST = 12
"""Characters of a document's name that stand on a line, at least; twice as many at most."""


def table(inspection: Inspection) -> RenderableType:
    """One row per page in prompt order."""
    return _PageTable(inspection)


class _PageTable:
    """One row per page; on a narrow console without the columns that tell least."""

    def __init__(self, inspection: Inspection) -> None:
        self.pages = inspection.pages
        self.cells = {name: [cell(page) for page in self.pages] for name, cell in _COLUMNS.items()}
        if inspection.versus is None:
            del self.cells["overlap"]
        self.least = min(_SHORTEST, max(len(page.label) for page in self.pages))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        names = list(self.cells)
        for name in _DISPENSABLE:
            if self._width(names) > options.max_width and name in names:
                names.remove(name)
        drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
        drawn.add_column("document", overflow="fold", min_width=self.least, max_width=2 * _SHORTEST)
        for name in names:
            drawn.add_column(name, justify="right", no_wrap=True)
        for row, page in enumerate(self.pages):
            drawn.add_row(Text(page.label), *(Text(self.cells[name][row]) for name in names))
        yield drawn

    def _width(self, names: Sequence[str]) -> int:
        """Characters that these columns take at least, a blank before each."""
        return max(self.least, len("document")) + sum(1 + max(map(len, (name, *self.cells[name]))) for name in names)
