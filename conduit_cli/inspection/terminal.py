"""`conduit inspect` in a terminal: heat maps of the pages that got the most.

A token cell is about square: two characters wide, or, where the grid is too large for that, half a
character high. Without colour the same map is drawn in characters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.style import Style
from rich.text import Text

from conduit_cli.inspection.geometry import TokenGrid
from conduit_cli.inspection.heat import RGB, Scale, ramp, scale_of
from conduit_cli.inspection.model import Inspection
from conduit_cli.inspection.wording import LAYER_TITLES, grid_lines, page_line

__all__ = ["heat_maps"]

_MOST_PAGES = 3
_MOST_ROWS = 24
"""Cells of a map from top to bottom, at two characters each; beyond, half blocks are used."""
_MARGIN = 4  # two blanks before a map, or bars beside it

# Reused tokens take the cold colours and refreshed ones the warm: two ramps, each by its own score.
_COLD = ramp(((27, 31, 48), (44, 62, 104), (112, 146, 190)), 32)
_WARM = ramp(((214, 92, 48), (245, 166, 55), (255, 241, 150)), 32)
_SHADES = " .:-=+"
_REFRESHED = "#"

Cell = tuple[float, bool]
"""A token's place on the scale, 0 to 1, and whether it was refreshed."""


def heat_maps(inspection: Inspection) -> Iterator[RenderableType]:
    """Maps of the pages with the largest share of the budget, and what the colours mean.

    A map is of the page's finest grid; a line tells what another got.
    """
    layer = inspection.layer_names[0]
    scale = scale_of(inspection, layer)
    shown = [inspection.pages[i] for i in inspection.by_share[:_MOST_PAGES]]
    shown = [page for page in shown if page.share.refreshed] or shown[:1]
    several = len({page.label for page in inspection.pages}) > 1
    for page in shown:
        title = page.title if several else f"page {page.share.page}"
        yield Text.assemble("\n", (title, "bold"), f": {page_line(page)}")
        yield _HeatMap(page.grids[0], page.share.refreshed, page.values(layer) or (), scale)
        yield from (Text(f"  {line}") for line in grid_lines(page))
    yield _Key(LAYER_TITLES[layer])


class _HeatMap:
    """One grid of a page, as wide as the console allows."""

    def __init__(self, grid: TokenGrid, chosen: Collection[int], values: Sequence[float], scale: Scale) -> None:
        self.grid, self.chosen, self.values, self.scale = grid, set(chosen), values, scale

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if not self.grid.tokens:
            return
        cells = self._cells(max(8, options.max_width - _MARGIN))
        wide = len(cells[0]) * 2 <= options.max_width - _MARGIN and len(cells) <= _MOST_ROWS
        rows: Iterable[Text]
        if _colourless(console):
            rows = (_characters(row, 2) for row in cells) if wide else (_characters(row, 1) for row in _paired(cells))
        else:
            rows = (_blocks(row) for row in cells) if wide else _halves(cells)
        yield from (Text("  ") + row for row in rows)

    def _cells(self, width: int) -> list[list[Cell]]:
        """The grid; blocks of tokens share a cell where it has more columns than the console."""
        rows, columns = len(self.grid.rows), len(self.grid.columns)
        flat = [(self.scale.at(self.values[token]), token in self.chosen) for token in self.grid.tokens]
        step = -(-columns // width)
        return [
            [
                _merged([flat[r * columns + c] for r in _upto(row, step, rows) for c in _upto(column, step, columns)])
                for column in range(0, columns, step)
            ]
            for row in range(0, rows, step)
        ]


class _Key:
    """What the colours or characters mean."""

    def __init__(self, title: str) -> None:
        self.title = title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if _colourless(console):
            yield Text(f"\n  {_REFRESHED} refreshed   '{_SHADES}' reused, by {self.title}")
            return
        bars = [Text("".join(" " for _ in colours[::4])) for colours in (_COLD, _WARM)]
        for bar, colours in zip(bars, (_COLD, _WARM), strict=True):
            for at, colour in enumerate(colours[::4]):
                bar.stylize(_on(colour), at, at + 1)
        yield Group(
            Text(""),
            Text.assemble("  ", bars[0], " reused   ", bars[1], " refreshed"),
            Text(f"  brighter: more {self.title}"),
        )


def _colourless(console: Console) -> bool:
    """Whether the map is drawn in characters: 256 colours are too few for the shades, which would run together."""
    return console.color_system != "truecolor" or console.no_color


def _upto(start: int, step: int, end: int) -> range:
    return range(start, min(start + step, end))


def _merged(cells: Sequence[Cell]) -> Cell:
    """The warmest of several cells."""
    return max(place for place, _ in cells), any(refreshed for _, refreshed in cells)


def _paired(cells: list[list[Cell]]) -> list[list[Cell]]:
    """Rows two by two: a character is twice as high as wide."""
    return [[_merged(both) for both in zip(*cells[row : row + 2], strict=True)] for row in range(0, len(cells), 2)]


def _characters(row: Sequence[Cell], width: int) -> Text:
    """Plain ASCII, whatever the terminal; a bar at both ends shows where the page is."""
    marks = (_REFRESHED if refreshed else _SHADES[round(place * (len(_SHADES) - 1))] for place, refreshed in row)
    return Text(f"|{''.join(mark * width for mark in marks)}|")


def _blocks(row: Sequence[Cell]) -> Text:
    """Two blanks a token, on its colour; refreshed ones carry a mark as well, for eyes that see no hue."""
    text = Text()
    for cell in row:
        text.append("[]" if cell[1] else "  ", Style(color="black", bgcolor=_on(_colour(cell)).bgcolor))
    return text


def _halves(cells: list[list[Cell]]) -> Iterator[Text]:
    """Two rows of tokens a line: the upper as ink, the lower as paper."""
    for top in range(0, len(cells), 2):
        text = Text()
        lower = cells[top + 1] if top + 1 < len(cells) else None
        for at, cell in enumerate(cells[top]):
            paper = _on(_colour(lower[at])).bgcolor if lower else None
            text.append("▀", Style(color=_on(_colour(cell)).bgcolor, bgcolor=paper))
        yield text


def _colour(cell: Cell) -> RGB:
    place, refreshed = cell
    colours = _WARM if refreshed else _COLD
    return colours[round(place * (len(colours) - 1))]


def _on(colour: RGB) -> Style:
    return Style(bgcolor=f"rgb({colour[0]},{colour[1]},{colour[2]})")
