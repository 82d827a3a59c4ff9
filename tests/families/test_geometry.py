"""Every token's box holds the pixels that the stock processor and vision tower made it of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from PIL import Image

from conduit_cli.families.base import Family
from conduit_cli.families.tiling import pooled, spans, stitched, tiled
from conduit_cli.inspection.geometry import Cells, TokenGrid
from conduit_cli.models.loading import load
from tests.families.conftest import Case
from tests.families.seeing import changed, silenced, with_spot
from tests.families.tiny import MATRIX, Tiny

SIZES = ((150, 96), (97, 131), (196, 84))
TILED = ("llava_next", "llava_onevision", "internvl", "idefics3", "smolvlm")
ROW_ENDS = ("llava_next", "llava_onevision")


@pytest.fixture(scope="module")
def local(cases: Callable[[str], Case]) -> Callable[[str], Family]:
    """A family whose tokens know nothing of each other, loaded anew: the others' weights stay as they are."""
    return cache(lambda name: silenced(load(str(cases(name).folder)).vlm))


def _grids(vlm: Family, image: Image.Image) -> tuple[TokenGrid, ...]:
    return vlm.grids(vlm.encode_image(image).layout)


def _unplaced(grids: tuple[TokenGrid, ...], count: int) -> list[int]:
    return sorted(set(range(count)).difference(*(grid.tokens for grid in grids)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", list(MATRIX))
def test_a_spot_in_the_middle_of_a_cell_is_seen_by_its_token(
    local: Callable[[str], Family], name: str, size: tuple[int, int]
) -> None:
    """For every cell of every grid: of the grid's tokens, that cell's changes most; those that end rows never do."""
    vlm, white = local(name), Image.new("RGB", size, "white")
    grids = _grids(vlm, white)
    assert [grid.name for grid in grids] == (["tiles", "overview"] if name in TILED else ["page"])
    for grid in grids:
        for cell in range(len(grid.tokens)):
            (top, bottom), (left, right) = grid.rows[cell // len(grid.columns)], grid.columns[cell % len(grid.columns)]
            x, y = int((left + right) / 2 * size[0]), int((top + bottom) / 2 * size[1])
            seen = changed(vlm, white, with_spot(white, x - 1, y - 1, x + 2, y + 2))
            assert int(seen[list(grid.tokens)].argmax()) == cell
            assert not seen[_unplaced(grids, len(seen))].any()


def _fitting(name: str) -> list[tuple[int, int]]:
    """Sizes that a tiny processor does not resize, so that every pixel of the page is one of the tiles'."""
    return {
        "internvl": [(84, 56), (56, 84), (28, 84)],
        "idefics3": [(96, 64), (64, 96), (96, 96)],
        "smolvlm": [(96, 64)],
        "llava_next": [(56, 56), (56, 40), (84, 28), (37, 56)],  # padded by 8 and 8, 9 and 10 pixels
        "llava_onevision": [(56, 28), (56, 20), (23, 56)],
    }[name]


@pytest.mark.parametrize("name", TILED)
def test_boxes_are_exact_to_the_pixel(local: Callable[[str], Family], name: str) -> None:
    """One pixel in a box's corner changes its token and no other of the grid; one that is in no box changes none."""
    for size in _fitting(name):
        _check_corners(local(name), size)


def _check_corners(vlm: Family, size: tuple[int, int]) -> list[tuple[int, int]]:
    """The pixels that are in no box."""
    white = Image.new("RGB", size, "white")
    grid = _grids(vlm, white)[0]
    assert grid.name == "tiles"
    cells, tokens = Cells.of(grid, size), torch.tensor(grid.tokens)
    boxed = set()
    for cell in range(len(grid.tokens)):
        left, top, right, bottom = cells.box(cell)
        assert (left, top, right, bottom) == pytest.approx(
            (*(grid.columns[cell % len(grid.columns)][0] * size[0], grid.rows[cell // len(grid.columns)][0] * size[1]),
             *(grid.columns[cell % len(grid.columns)][1] * size[0], grid.rows[cell // len(grid.columns)][1] * size[1])),
            abs=1e-3,
        )  # fmt: skip
        boxed.update((x, y) for x in range(left, right) for y in range(top, bottom))
        for x, y in {(left, top), (right - 1, top), (left, bottom - 1), (right - 1, bottom - 1)}:
            seen = changed(vlm, white, with_spot(white, x, y, x + 1, y + 1))[tokens]
            assert (seen > 0).nonzero()[:, 0].tolist() == [cell]
    free = [(x, y) for x in range(size[0]) for y in range(size[1]) if (x, y) not in boxed]
    for x, y in free[:: max(1, len(free) // 12)]:
        assert not changed(vlm, white, with_spot(white, x, y, x + 1, y + 1))[tokens].any()
    return free


def _with_a_rest() -> Tiny:
    """Tiles of 30 pixels and patches of 7, as SigLIP has 384 and 14: two pixels of every tile are in no patch."""
    tiny, pinpoints = MATRIX["llava_onevision"], [[30, 60], [60, 30], [60, 60]]
    config = {
        **tiny.config,
        "vision_config": {**tiny.config["vision_config"], "image_size": 30},
        "vision_aspect_ratio": "anyres_max_4",
        "image_grid_pinpoints": pinpoints,
    }
    return replace(
        tiny, config=config, image_options={"size": {"height": 30, "width": 30}, "image_grid_pinpoints": pinpoints}
    )


def test_what_is_left_between_tiles_is_in_no_box(tmp_path: Path) -> None:
    vlm = silenced(load(str(_with_a_rest().save(tmp_path))).vlm)
    free = _check_corners(vlm, (60, 60))
    assert {x for x, y in free if y == 0} == {28, 29, 58, 59}
    white = Image.new("RGB", (60, 60), "white")
    tiles, overview = _grids(vlm, white)
    assert tiles.columns[3][1] < tiles.columns[4][0]
    assert overview.columns[-1][1] == pytest.approx(28 / 30)
    seen = changed(vlm, white, with_spot(white, 57, 0, 60, 60))  # all of it beyond the overview's last patch
    assert seen[list(overview.tokens)].max() < 0.2 * changed(vlm, white, with_spot(white, 0, 0, 3, 60)).max()


@pytest.mark.parametrize("size", [*SIZES, (140, 112), (28, 28), (300, 20), (20, 300), (1001, 1414)])
@pytest.mark.parametrize("name", list(MATRIX))
def test_boxes_tile_the_page(local: Callable[[str], Family], name: str, size: tuple[int, int]) -> None:
    """Every token has one place or none; cells touch, and together they are the page but for the strips named."""
    vlm = local(name)
    encoded = vlm.encode_image(Image.new("RGB", size, "white"))
    grids, count = vlm.grids(encoded.layout), len(encoded.embeddings)
    placed = [token for grid in grids for token in grid.tokens]
    assert len(placed) == len(set(placed))
    ends = vlm._rows_and_columns(*encoded.layout["size"])[0] if name in ROW_ENDS else 0
    assert len(_unplaced(grids, count)) == ends == count - len(placed)
    for grid in grids:
        assert len(grid.tokens) == len(grid.rows) * len(grid.columns)
        for spans_of, cropped in ((grid.rows, size[1] > size[0]), (grid.columns, size[0] > size[1])):
            assert all(before[1] == after[0] for before, after in pairwise(spans_of))
            lost = spans_of[0][0] + 1 - spans_of[-1][1]
            if name == "llava" and cropped:  # to the middle square
                assert lost == pytest.approx(1 - min(size) / max(size), abs=2 / 28)
            elif name in ROW_ENDS and grid.name == "tiles":  # up to half a patch on each side
                assert lost <= max(end - start for start, end in spans_of)
            else:
                assert lost == 0
    single = len(grids) == 1 and not ends
    assert encoded.grid == ((len(grids[0].rows), len(grids[0].columns)) if single else None)


def test_a_page_of_one_tile_is_one_grid(local: Callable[[str], Family]) -> None:
    encoded = local("internvl").encode_image(Image.new("RGB", (28, 28), "white"))
    assert encoded.grid == (2, 2)
    assert [grid.name for grid in local("internvl").grids(encoded.layout)] == ["page"]


def test_pooled_cells_share_the_old_ones_evenly() -> None:
    old = spans(9)
    assert pooled(old, 9) == old
    assert [edge for span in pooled(old, 4) for edge in span] == pytest.approx([0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1])
    gaps = tiled(2, 2, (0.0, 0.8))  # 0 to .4 and .5 to .9
    assert [edge for span in pooled(gaps, 2) for edge in span] == pytest.approx([0, 0.4, 0.5, 0.9])
    assert [edge for span in pooled(gaps, 3) for edge in span] == pytest.approx(
        [0, 0.8 / 3, 0.8 / 3, 0.5 + 0.4 / 3, 0.5 + 0.4 / 3, 0.9]
    )


def test_tokens_of_tiles_are_stitched_into_rows() -> None:
    assert stitched((1, 2), (2, 2)) == [0, 1, 4, 5, 2, 3, 6, 7]
    assert stitched((2, 1), (1, 2)) == [0, 1, 2, 3]
    assert sorted(stitched((3, 4), (5, 6))) == list(range(360))
