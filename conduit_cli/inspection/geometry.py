"""Which pixels of a page belong to which token.

A family that reports a grid resizes the whole page onto it, so cell (row, column) of R x C covers the
same fraction of the page before and after the processor's resize: [column/C, (column+1)/C] of its width
and [row/R, (row+1)/R] of its height. Pages are drawn at whole cells, so that no edge falls inside a pixel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from PIL import Image

__all__ = ["NO_GRID", "Cells", "cells_of", "edges", "on_cells"]

NO_GRID = (
    "This model cuts pages into tiles, so its tokens form no single grid: "
    "they can't be drawn on the page without being misplaced."
)

Edge = tuple[int, int, int, int]
"""A cell's side, in cells: x0, y0, x1, y1."""


@dataclass(frozen=True, slots=True)
class Cells:
    """A grid of `rows` x `columns` cells of `width` x `height` pixels, from the picture's upper left corner."""

    rows: int
    columns: int
    width: int
    height: int

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the whole grid, in pixels."""
        return self.columns * self.width, self.rows * self.height

    def box(self, token: int) -> tuple[int, int, int, int]:
        """Pixels of a token of the page in reading order: left, top, right, bottom (the last two exclusive)."""
        row, column = divmod(token, self.columns)
        left, top = column * self.width, row * self.height
        return left, top, left + self.width, top + self.height


def cells_of(width: float, height: float, grid: tuple[int, int], longest: int) -> Cells:
    """Whole cells for a page of this shape, its longer side about `longest` pixels."""
    rows, columns = grid
    scale = longest / max(width, height)
    return Cells(rows, columns, max(1, round(width * scale / columns)), max(1, round(height * scale / rows)))


def on_cells(image: Image.Image, grid: tuple[int, int], longest: int) -> tuple[Image.Image, Cells]:
    """The page at whole cells, its shape its own."""
    cells = cells_of(*image.size, grid, longest)
    if image.size == cells.size:
        return image, cells
    return image.resize(cells.size, Image.Resampling.LANCZOS), cells


def edges(chosen: Iterable[int], columns: int) -> tuple[list[Edge], list[Edge]]:
    """The outline of a set of cells, and the lines between two cells of the set."""
    cells = {divmod(token, columns)[::-1] for token in chosen}
    outer, inner = [], []
    for x, y in sorted(cells, key=lambda cell: cell[::-1]):
        for (nx, ny), edge in (
            ((x, y - 1), (x, y, x + 1, y)),
            ((x, y + 1), (x, y + 1, x + 1, y + 1)),
            ((x - 1, y), (x, y, x, y + 1)),
            ((x + 1, y), (x + 1, y, x + 1, y + 1)),
        ):
            if (nx, ny) not in cells:
                outer.append(edge)
            elif (nx, ny) > (x, y):
                inner.append(edge)
    return outer, inner
