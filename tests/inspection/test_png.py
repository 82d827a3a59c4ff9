"""Cell (row, column) of the picture lies on the pixels that the vision tower merged into that token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pymupdf
import pytest
from PIL import Image, ImageDraw

from conduit_cli import Session
from conduit_cli.families.tiling import spans, stitched, tile_grids, tiled
from conduit_cli.inspection.geometry import Cells, TokenGrid, drawn_size, edges
from conduit_cli.inspection.heat import OUTLINE
from conduit_cli.inspection.model import Inspection
from conduit_cli.inspection.png import file_name, page_png
from tests.inspection.conftest import Inspect
from tests.inspection.synthetic import made

RED = (230, 0, 0)
INSIDE = 0.15  # the marker keeps this part of a cell's side free, all round


def _box(mask: np.ndarray) -> tuple[int, int, int, int]:
    rows, columns = np.nonzero(mask)
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


def _marked(size: tuple[int, int], grid: tuple[int, int], row: int, column: int) -> Image.Image:
    """White, with a red block inside one cell of a grid laid over the whole picture."""
    image = Image.new("RGB", size, "white")
    wide, tall = size[0] / grid[1], size[1] / grid[0]
    ImageDraw.Draw(image).rectangle(
        ((column + INSIDE) * wide, (row + INSIDE) * tall, (column + 1 - INSIDE) * wide, (row + 1 - INSIDE) * tall),
        fill=RED,
    )
    return image


def _token_that_saw_red(session: Session, image: Image.Image) -> int:
    """The visual token whose patches hold the marker, read from what the stock processor gives the tower."""
    vlm = session.model.vlm
    pixels = vlm.image_processor(images=[image], size=vlm._budget, return_tensors="pt")["pixel_values"]
    merged = pixels.reshape(-1, int(vlm.image_processor.merge_size) ** 2, 3, pixels.shape[1] // 3)
    redness = (merged[:, :, 0] - merged[:, :, 2]).mean((1, 2))
    assert (redness > 0.05).sum() == 1
    return int(redness.argmax())


def _only(inspection: Inspection, token: int) -> Inspection:
    """The same answer with one token refreshed."""
    page = inspection.pages[0]
    return replace(inspection, pages=(replace(page, share=replace(page.share, refreshed=(token,))),))


def _check(inspection: Inspection, token: int, drawn: Image.Image, pixel: float = 4) -> None:
    """Outline and marker of the finished PNG: one in the middle of the other.

    `pixel` is how large a pixel of the document comes out: the marker ends on one of those.
    """
    shown = _only(inspection, token)
    with_marker, without = (
        np.asarray(page_png(shown, shown.pages[0], page)).astype(int)
        for page in (drawn, Image.new("RGB", drawn.size, "white"))
    )
    page = without[: without.shape[1] * drawn.height // drawn.width - 20]  # the caption stands below
    outline = _box((np.abs(page - OUTLINE) < 4).all(2))
    marker = _box((np.abs(with_marker - without) > 40).any(2))
    for low in (0, 1):
        side = (outline[low + 2] - outline[low]) * INSIDE
        before, after = marker[low] - outline[low], outline[low + 2] - marker[low + 2]
        assert before == pytest.approx(side, abs=1.5 * pixel)
        assert after == pytest.approx(side, abs=1.5 * pixel)


@pytest.mark.parametrize("size", [(336, 224), (505, 331), (1900, 1300), (210, 150)])
@pytest.mark.parametrize("place", [(1, 1), (3, 7), (5, 2)])
def test_a_marker_in_a_picture(
    inspect: Inspect,
    session: Session,
    see: Callable[[Path], Image.Image],
    tmp_path: Path,
    size: tuple[int, int],
    place: tuple[int, int],
) -> None:
    path = tmp_path / "marked.png"
    Image.new("RGB", size, "white").save(path)
    grid = inspect(path=path).pages[0].share.grid
    assert grid is not None
    row, column = place[0] % grid[0], place[1] % grid[1]
    image = _marked(size, grid, row, column)
    image.save(path)
    token = _token_that_saw_red(session, image)
    assert token == row * grid[1] + column
    _check(inspect(path=path), token, see(path), max(4.0, 1600 / max(size)))


def test_a_marker_on_a_pdf_page(
    inspect: Inspect, session: Session, see: Callable[[Path], Image.Image], tmp_path: Path
) -> None:
    path, (rows, columns), (row, column) = tmp_path / "marked.pdf", (8, 12), (4, 9)
    with pymupdf.open() as document:
        page = document.new_page(width=600, height=400)
        wide, tall = 600 / columns, 400 / rows
        box = (column + INSIDE) * wide, (row + INSIDE) * tall, (column + 1 - INSIDE) * wide, (row + 1 - INSIDE) * tall
        page.draw_rect(pymupdf.Rect(box), color=None, fill=(0.9, 0, 0))
        document.save(path)
    inspection = inspect(path=path)
    assert inspection.pages[0].share.grid == (rows, columns)
    seen = see(path)
    assert max(seen.size) > 1000  # sharper than the tower's 336 x 224
    token = _token_that_saw_red(session, seen.resize((336, 224)))
    assert token == row * columns + column
    _check(inspection, token, seen)


def test_every_refreshed_cell_is_outlined_and_no_other() -> None:
    inspection = made(1, (6, 9), ratio=0.2)
    page = inspection.pages[0]
    white, none = Image.new("RGB", (900, 600), "white"), replace(page, share=replace(page.share, refreshed=()))
    blank, drawn = page_png(inspection, none, white), page_png(inspection, page, white)
    cell = drawn.width // 9
    rim = cell // 4
    changed = (np.asarray(drawn)[: cell * 6].astype(int) != np.asarray(blank)[: cell * 6]).any(2)
    for token in range(54):
        row, column = divmod(token, 9)
        top, left = row * cell, column * cell
        across = slice(left + rim, left + cell - rim)
        assert not changed[top + rim : top + cell - rim, across].any()  # print inside a cell stays as it is
        lined = token in page.share.refreshed or token - 9 in page.share.refreshed
        assert changed[top, across].all() == lined


def test_outlines_enclose_and_inner_lines_divide() -> None:
    cells = Cells(rows=((0, 1), (1, 2)), columns=((0, 1), (1, 2), (2, 3)))
    outer, inner = edges([0, 1, 4], cells)
    assert set(inner) == {(1, 0, 1, 1), (1, 1, 2, 1)}
    assert len(outer) == 3 * 4 - 2 * len(inner)
    outer, inner = edges([2, 3], cells)  # neighbours in the sequence, but on two rows
    assert inner == []
    assert len(outer) == 8


def test_what_has_no_place_is_not_drawn() -> None:
    inspection = made(1, (TokenGrid("page"),), tokens=256)
    plain = Image.new("RGB", (1600, 1200), (255, 255, 255))
    drawn = np.asarray(page_png(inspection, inspection.pages[0], plain))
    assert (drawn[:1200] == 255).all()
    assert (drawn[1200:] < 120).any()  # the caption says why


def _outlined(picture: Image.Image, cells: Cells, at: tuple[int, int]) -> list[int]:
    """Cells of a part of a picture, from its corner `at`, with the colour of outlines on all four sides."""
    blue = (np.abs(np.asarray(picture).astype(int) - OUTLINE) < 4).all(2)[at[1] :, at[0] :]
    found = []
    for cell in range(len(cells.rows) * len(cells.columns)):
        left, top, right, bottom = cells.box(cell)
        across, down = slice(left + 4, right - 4), slice(top + 4, bottom - 4)
        if all(part.all() for part in (blue[top, across], blue[bottom - 1, across], blue[down, left])):
            found.append(cell)
    return found


def test_both_grids_of_a_tiled_page_are_drawn() -> None:
    """Every token is refreshed in turn: it is outlined in its own grid, at its cell, and nowhere else."""
    tiles, overview = tile_grids(2, 2, (2, 2))
    inspection = made(1, (tiles, overview), tokens=22)  # two tokens are in neither grid
    white = Image.new("RGB", (1600, 1200), "white")
    large = Cells.of(tiles, (1600, 1200))
    small, corner = Cells.of(overview, (800, 600)), (1600 + 24, 40)
    for token in range(22):
        shown = _only(inspection, token)
        picture = page_png(shown, shown.pages[0], white)
        inside = [tiles.tokens[cell] for cell in _outlined(picture, large, (0, 0))]
        beside = [overview.tokens[cell] for cell in _outlined(picture, small, corner)]
        assert (inside, beside) == ([token] * (token < 16), [token] * (16 <= token < 20))


def test_pixels_that_no_token_read_get_no_colour() -> None:
    """Between tiles whose patches don't fill them, and where a picture was cropped."""
    grid = TokenGrid.of("tiles", tiled(2, 3, (0.0, 0.9)), spans(4, (0.25, 0.75)), stitched((2, 1), (3, 4)))
    inspection = made(1, (grid,))
    nothing = replace(inspection.pages[0], share=replace(inspection.pages[0].share, refreshed=()))
    white = Image.new("RGB", (1600, 1200), "white")
    drawn = np.asarray(page_png(inspection, nothing, white))
    size = drawn_size(1600, 1200, grid, 1600)
    cells = Cells.of(grid, size)
    read = np.zeros(size[::-1], dtype=bool)
    for cell in range(len(grid.tokens)):
        left, top, right, bottom = cells.box(cell)
        read[top:bottom, left:right] = True
    assert ((drawn[: size[1], : size[0]] != 255).any(2) == read).all()
    assert 0.4 < read.mean() < 0.5


def test_file_names_are_safe_and_do_not_collide() -> None:
    names = []
    for index, document in enumerate(["a/../b.pdf", "a_.._b.pdf", "\x00<script>.pdf", ".pdf", "x" * 300 + ".pdf"]):
        page = made(1, (2, 2), document=document).pages[0]
        names.append(file_name(index, page))
    assert len(set(names)) == 5
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-") and len(name) < 100 for name in names)
