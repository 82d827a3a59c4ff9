"""The table and the heat maps, read back from what a console of 80 columns shows."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.console import Console

from conduit_cli.families.tiling import tile_grids
from conduit_cli.inspection.geometry import TokenGrid
from conduit_cli.inspection.model import Inspection
from conduit_cli.inspection.table import table
from conduit_cli.inspection.terminal import heat_maps
from tests.inspection.synthetic import made


def _lines(inspection: Inspection, *, colour: bool = False, width: int = 80, system: str | None = None) -> list[str]:
    screen = StringIO()
    system = "truecolor" if colour else system
    console = Console(file=screen, width=width, force_terminal=colour, color_system=system, soft_wrap=True)
    console.print(table(inspection))
    for part in heat_maps(inspection):
        console.print(part)
    return screen.getvalue().splitlines()


def _plain(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("grid", [(8, 12), (40, 30), (30, 38), (20, 90), (1, 300), (90, 4)])
def test_eighty_columns_are_enough(grid: tuple[int, int], colour: bool) -> None:
    lines = _lines(made(4, grid, document="a-long-name-of-a-document-2026.pdf"), colour=colour)
    assert max(len(_plain(line)) for line in lines) <= 80
    assert any("\x1b" in line for line in lines) == colour


@pytest.mark.parametrize("system", [None, "standard", "256"])
def test_characters_show_the_refreshed_set(system: str | None) -> None:
    """Also where there are colours, but too few for the shades."""
    inspection = made(1, (8, 12), ratio=0.2)
    rows = [line.strip() for line in _lines(inspection, system=system) if line.strip().startswith("|")]
    assert len(rows) == 8
    cells = [row[1:-1][at : at + 2] for row in rows for at in range(0, 24, 2)]
    assert [token for token, cell in enumerate(cells) if cell == "##"] == list(inspection.pages[0].share.refreshed)


def test_colours_tell_refreshed_from_reused() -> None:
    inspection = made(1, (4, 6), ratio=0.25)
    rows = [line for line in _lines(inspection, colour=True) if "48;2" in line and "reused" not in line]
    cells = [cell for row in rows for cell in re.findall(r"48;2;(\d+);\d+;(\d+)m([^\x1b]*)", row)]
    assert len(cells) == 24
    warm = [token for token, (red, blue, _) in enumerate(cells) if int(red) > int(blue)]
    assert warm == list(inspection.pages[0].share.refreshed)
    assert [token for token, cell in enumerate(cells) if cell[2] == "[]"] == warm


def test_a_large_grid_keeps_its_shape_in_half_blocks() -> None:
    rows = [_plain(line).strip() for line in _lines(made(1, (40, 30)), colour=True) if "▀" in line]
    assert len(rows) == 20
    assert {len(row) for row in rows} == {30}


def test_the_pages_with_the_largest_share_come_first() -> None:
    inspection = made(7, (6, 6), ratio=0.3)
    titles = [line.partition(":")[0] for line in _lines(inspection) if re.match(r"page \d+:", line)]
    assert titles == [f"page {index + 1}" for index in inspection.by_share[:3]]


def test_tiles_are_mapped_and_the_overview_gets_a_line() -> None:
    tiles, overview = tile_grids(2, 3, (4, 4))
    inspection = made(1, (tiles, overview), tokens=7 * 16 + 5, ratio=0.2)
    refreshed = set(inspection.pages[0].share.refreshed)
    lines = [line.strip() for line in _lines(inspection)]
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 8
    cells = [row[1:-1][at : at + 2] for row in rows for at in range(0, 24, 2)]
    assert [tiles.tokens[cell] in refreshed for cell in range(96)] == [cell == "##" for cell in cells]
    counts = [len(refreshed.intersection(range(*ends))) for ends in ((0, 96), (96, 112), (112, 117))]
    assert lines[lines.index(rows[-1]) + 1 :][:3] == [
        f"tiles: 8 x 12 tokens, {counts[0]} refreshed",
        f"overview: 4 x 4 tokens, {counts[1]} refreshed",
        f"5 tokens have no place on the page (ends of rows, marks), {counts[2]} refreshed",
    ]


def test_tokens_without_a_place_are_counted_not_drawn() -> None:
    lines = _lines(made(1, (TokenGrid("page"),), tokens=64))
    assert not any(line.strip().startswith("|") for line in lines)
    assert any("64 tokens have no place on the page" in line for line in lines)


@pytest.mark.parametrize("width", [40, 32, 60, 80])
def test_a_narrow_table_keeps_its_documents(width: int) -> None:
    lines = _lines(made(2, (4, 4), document="report.pdf"), width=width)
    assert [line.split()[:2] for line in lines[1:3]] == [["report.pdf", "1"], ["report.pdf", "2"]]
    assert lines[0].split()[:2] == ["document", "page"]
    assert "of budget" in lines[0]
    assert max(len(line) for line in lines[:3]) <= width
    assert ("attention g" in lines[0]) == (width == 80)


def test_documents_of_one_name_are_told_apart() -> None:
    lines = _lines(made(1, (4, 4), document="report.pdf", label="2025/report.pdf"))
    assert any(line.startswith("2025/report.pdf") for line in lines)
