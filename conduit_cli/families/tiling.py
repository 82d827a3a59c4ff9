"""Arithmetic of tiles: where the cells of a picture that was cut, cropped, padded or pooled lie on the page."""

from __future__ import annotations

from collections.abc import Sequence

from conduit_cli.inspection.geometry import Span, TokenGrid

__all__ = ["inside", "pooled", "spans", "stitched", "tile_grids", "tiled"]


def inside(span: Span, within: Span) -> Span:
    """A span told in shares of another, in the measure that the other is told in."""
    start, length = within[0], within[1] - within[0]
    return start + span[0] * length, start + span[1] * length


def spans(count: int, within: Span = (0.0, 1.0)) -> list[Span]:
    """`count` equal spans, side by side."""
    return [inside((at / count, (at + 1) / count), within) for at in range(count)]


def tiled(tiles: int, cells: int, read: Span = (0.0, 1.0)) -> list[Span]:
    """The cells of tiles side by side, of each of which the vision tower reads a part."""
    return [span for tile in spans(tiles) for span in spans(cells, inside(read, tile))]


def stitched(tiles: tuple[int, int], cells: tuple[int, int]) -> list[int]:
    """Tokens in reading order over the whole picture, where they stand tile by tile.

    Args:
        tiles: rows and columns of tiles.
        cells: rows and columns of a tile's tokens.
    """
    (down, across), (rows, columns) = tiles, cells
    return [
        ((row // rows) * across + column // columns) * rows * columns + (row % rows) * columns + column % columns
        for row in range(down * rows)
        for column in range(across * columns)
    ]


def tile_grids(down: int, across: int, cells: tuple[int, int]) -> tuple[TokenGrid, ...]:
    """Grids of a page that was stretched to tiles of equal size and, where they are several, to one more after them.

    Args:
        down, across: rows and columns of tiles; none where the page was not cut.
        cells: rows and columns of a tile's tokens.
    """
    rows, columns = cells
    per_tile, tiles = rows * columns, down * across
    if tiles <= 1:
        return (TokenGrid.of("page", spans(rows), spans(columns), range(per_tile)),)
    last = range(tiles * per_tile, (tiles + 1) * per_tile)
    return (
        TokenGrid.of("tiles", tiled(down, rows), tiled(across, columns), stitched((down, across), cells)),
        TokenGrid.of("overview", spans(rows), spans(columns), last),
    )


def pooled(cells: Sequence[Span], count: int) -> list[Span]:
    """Cells resampled to fewer: each new one covers the same number of old ones, in part or whole.

    Bilinear interpolation also reads up to half an old cell beyond that, or skips what is between its two nearest.
    """
    made = []
    for at in range(count):
        first, before = divmod(at * len(cells), count)
        last, after = divmod((at + 1) * len(cells) - 1, count)
        start, _ = inside((before / count, 1.0), cells[first])
        _, end = inside((0.0, (after + 1) / count), cells[last])
        made.append((start, end))
    return made
