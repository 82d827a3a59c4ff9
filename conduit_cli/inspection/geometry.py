"""Which pixels of a page belong to which token.

A page's tokens form one or more grids (`TokenGrid`): one where the whole page becomes one grid; an overview and its
tiles stitched together where a model reads a page twice. Rows and columns are told in shares of the page, so they
hold at every size at which the page is drawn (`Cells`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from PIL import Image

__all__ = ["Cells", "Span", "TokenGrid", "drawn_size", "edges", "on_cells"]

Span = tuple[float, float]
"""Where a row or a column of cells begins and ends, in shares of the page's height or width."""
Edge = tuple[int, int, int, int]
"""A cell's side, in pixels: x0, y0, x1, y1."""

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class TokenGrid:
    """Tokens that lie on the page in rows and columns.

    A cell covers the pixels that the vision tower merged into its token. Between two rows or columns there may be
    pixels that no token was made of, and some of a page's tokens may be in none of its grids.

    Attributes:
        name: what the grid is: `page`, `tiles` or `overview`.
        rows: top and bottom of each row, 0 to 1 of the page's height.
        columns: left and right of each column, 0 to 1 of the page's width.
        tokens: the page's token in each cell, in reading order: that of row r and column c is at
            r * len(columns) + c.
    """

    name: str
    rows: tuple[Span, ...] = ()
    columns: tuple[Span, ...] = ()
    tokens: tuple[int, ...] = ()

    @classmethod
    def of(cls, name: str, rows: Iterable[Span], columns: Iterable[Span], tokens: Iterable[int]) -> TokenGrid:
        """A grid cut to the page; rounded, so that the end of a cell is the very number that the next begins at."""
        return cls(name, tuple(map(_on_page, rows)), tuple(map(_on_page, columns)), tuple(tokens))

    def held(self, tokens: Collection[int]) -> list[int]:
        """Cells whose tokens are among these."""
        among = set(tokens)
        return [cell for cell, token in enumerate(self.tokens) if token in among]


@dataclass(frozen=True, slots=True)
class Cells:
    """A grid's rows and columns in the pixels of one drawing, each from its first pixel to that after its last."""

    rows: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, grid: TokenGrid, size: tuple[int, int]) -> Cells:
        """On a drawing of this width and height."""
        width, height = size
        return cls(_pixels(grid.rows, height), _pixels(grid.columns, width))

    def box(self, cell: int) -> tuple[int, int, int, int]:
        """Left, top, right and bottom of a cell; the last two are outside."""
        row, column = divmod(cell, len(self.columns))
        (left, right), (top, bottom) = self.columns[column], self.rows[row]
        return left, top, right, bottom


def drawn_size(width: float, height: float, grid: TokenGrid, longest: int) -> tuple[int, int]:
    """Pixels for a page of this shape, its longer side about `longest`: so many that the grid's cells are whole."""
    scale = longest / max(width, height)
    return _whole(width * scale, grid.columns), _whole(height * scale, grid.rows)


def on_cells(image: Image.Image, grid: TokenGrid, longest: int) -> tuple[Image.Image, Cells]:
    """The page in its own shape at whole cells of a grid, and where they are."""
    size = drawn_size(*image.size, grid, longest)
    drawn = image if image.size == size else image.resize(size, Image.Resampling.LANCZOS)
    return drawn, Cells.of(grid, size)


def edges(chosen: Iterable[int], cells: Cells) -> tuple[list[Edge], list[Edge]]:
    """The outline of a set of cells, and the lines between two cells of the set."""
    inside = {divmod(cell, len(cells.columns)) for cell in chosen}
    outer, inner = [], []
    for row, column in sorted(inside):
        (left, right), (top, bottom) = cells.columns[column], cells.rows[row]
        for neighbour, edge in (
            ((row - 1, column), (left, top, right, top)),
            ((row + 1, column), (left, bottom, right, bottom)),
            ((row, column - 1), (left, top, left, bottom)),
            ((row, column + 1), (right, top, right, bottom)),
        ):
            if neighbour not in inside:
                outer.append(edge)
            elif neighbour > (row, column):
                inner.append(edge)
    return outer, inner


def _on_page(span: Span) -> Span:
    start, end = (round(min(1.0, max(0.0, edge)), _DIGITS) for edge in span)
    return start, end


def _pixels(spans: Sequence[Span], length: int) -> tuple[tuple[int, int], ...]:
    return tuple((int(start * length + 0.5), int(end * length + 0.5)) for start, end in spans)


def _whole(length: float, spans: Sequence[Span]) -> int:
    """About `length`, at which the largest span is a whole number of pixels; those cut by the page are smaller."""
    share = max((end - start for start, end in spans), default=1.0)
    return max(1, round(max(1, round(length * share)) / share))
