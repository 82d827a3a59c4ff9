"""Every family: what is drawn over a page lies where its own processor and vision tower took the pixels from."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conduit_cli import AskOptions, DocumentRequest, Session
from conduit_cli.families.internvl import InternVL
from conduit_cli.inspection.geometry import Cells, TokenGrid, drawn_size
from conduit_cli.inspection.heat import OUTLINE
from conduit_cli.inspection.html import write_html
from conduit_cli.inspection.model import Inspection, PageView
from conduit_cli.inspection.png import LONGEST, page_png
from conduit_cli.models.loading import Model, load
from conduit_cli.reports import IngestedPage
from conduit_cli.session.inspecting import inspect_question, page_picture
from conduit_store import Store
from tests.families.seeing import changed, silenced, with_spot
from tests.families.test_geometry import TILED
from tests.families.tiny import MATRIX
from tests.inspection.test_html import COLOURED, OUTLINE_OF, Tabs, lines_of, outline_of, tabs  # noqa: F401

SIZE = (150, 96)
SPOTS = ((75, 48), (40, 20), (101, 80))


def _inspected(model: Model, store: Store, image: Image.Image, folder: Path) -> tuple[Inspection, Image.Image]:
    """An answer about a picture, and the picture as `inspect` draws it."""
    image.save(folder / "page.png")
    with Session(model, store).conversation(
        [DocumentRequest(folder / "page.png")], AskOptions(max_new_tokens=1)
    ) as conversation:
        inspection = inspect_question(conversation, "Where?")
        return inspection, page_picture(conversation, inspection, 0, LONGEST)


def _box(mask: np.ndarray) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of what is set."""
    rows, columns = np.nonzero(mask)
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


def _red(image: Image.Image) -> np.ndarray:
    pixels = np.asarray(image).astype(int)
    return np.asarray(pixels[..., 0] - pixels[..., 2] > 100)


@pytest.mark.parametrize("spot", SPOTS)
@pytest.mark.parametrize("family", list(MATRIX))
def test_a_red_spot_lies_in_its_tokens_cell(family: str, spot: tuple[int, int], store: Store, tmp_path: Path) -> None:
    model = load(str(MATRIX[family].save(tmp_path / "model")))
    white = Image.new("RGB", SIZE, "white")
    image = with_spot(white, spot[0] - 2, spot[1] - 2, spot[0] + 3, spot[1] + 3)
    inspection, drawn = _inspected(model, store, image, tmp_path)
    seen = changed(silenced(model.vlm), white, image)
    left, top, right, bottom = _box(_red(drawn))
    middle = (left + right) / 2 / drawn.width, (top + bottom) / 2 / drawn.height
    assert middle == pytest.approx(((spot[0] + 0.5) / SIZE[0], (spot[1] + 0.5) / SIZE[1]), abs=0.01)
    for grid in inspection.pages[0].grids:
        cell = int(seen[list(grid.tokens)].argmax())
        (above, below), (before, after) = grid.rows[cell // len(grid.columns)], grid.columns[cell % len(grid.columns)]
        assert before < right / drawn.width and left / drawn.width < after  # it may lie on the border of two
        assert above < bottom / drawn.height and top / drawn.height < below


def _refreshed(inspection: Inspection, token: int) -> tuple[Inspection, PageView]:
    """The same answer with one token refreshed."""
    page = inspection.pages[0]
    page = replace(page, share=replace(page.share, refreshed=(token,)))
    return replace(inspection, pages=(page,)), page


def _marked(grid: TokenGrid, cell: int, size: tuple[int, int]) -> Image.Image:
    """White, with red in the middle of one cell: a quarter of its sides stays free all round."""
    (top, bottom), (left, right) = grid.rows[cell // len(grid.columns)], grid.columns[cell % len(grid.columns)]
    wide, tall = (right - left) / 4, (bottom - top) / 4
    edges = ((left + wide) * size[0], (top + tall) * size[1], (right - wide) * size[0], (bottom - tall) * size[1])
    return with_spot(Image.new("RGB", size, "white"), *(round(edge) for edge in edges))


@pytest.mark.parametrize("at", [0, 1], ids=["tiles", "overview"])
@pytest.mark.parametrize("family", TILED)
def test_the_png_outlines_the_marker_in_both_grids(family: str, at: int, store: Store, tmp_path: Path) -> None:
    """The finished picture's outline of the token that saw a marker stands around the marker, with equal margins."""
    model, size = load(str(MATRIX[family].save(tmp_path / "model"))), (600, 400)
    white = Image.new("RGB", size, "white")
    inspection, _ = _inspected(model, store, white, tmp_path)
    grid = inspection.pages[0].grids[at]
    corner, longest = ((0, 0), LONGEST) if at == 0 else ((LONGEST + 24, 40), LONGEST // 2)
    for cell in (len(grid.columns) + 1, len(grid.tokens) - len(grid.columns) - 2):
        image = _marked(grid, cell, size)
        seen = changed(silenced(model.vlm), white, image)
        token = grid.tokens[int(seen[list(grid.tokens)].argmax())]
        shown, page = _refreshed(inspection, token)
        with_marker, without = (np.asarray(page_png(shown, page, one)).astype(int) for one in (image, white))
        width, height = drawn_size(*size, grid, longest)
        here = np.s_[corner[1] : corner[1] + height, corner[0] : corner[0] + width]
        outline = _box((np.abs(without - OUTLINE) < 4).all(2)[here])
        marker = _box((np.abs(with_marker - without) > 30).any(2)[here])
        box = Cells.of(grid, (width, height)).box(cell)
        assert outline == pytest.approx(box, abs=12)  # half the line's width
        for low in (0, 1):
            quarter = (box[low + 2] - box[low]) / 4
            assert marker[low] - box[low] == pytest.approx(quarter, abs=4)
            assert box[low + 2] - marker[low + 2] == pytest.approx(quarter, abs=4)


@pytest.mark.parametrize("family", ["llava_next", "internvl"])
def test_the_slider_gives_the_engines_own_selection_in_tiles_too(
    family: str,
    store: Store,
    tabs: Tabs,  # noqa: F811
    samples: Path,
    tmp_path: Path,
) -> None:
    session = Session(load(str(MATRIX[family].save(tmp_path / "model"))), store)
    requests, question = [DocumentRequest(samples / "report.pdf", "1-2")], "What is the revenue?"
    with session.conversation(requests, AskOptions(ratio=0.1, max_new_tokens=1)) as conversation:
        inspection = inspect_question(conversation, question)
        write_html(inspection, partial(page_picture, conversation, inspection), tmp_path / "a.html")
    opened = tabs.open(tmp_path / "a.html")
    opened.layer("refreshed")
    for ratio in ("0.1", "0.37", "0", "0.8", "1"):
        opened.ratio(ratio)
        asked = session.ask(requests, question, AskOptions(ratio=float(ratio), max_new_tokens=1))
        for index, share in enumerate(asked.pages):
            opened.go(index)
            page = inspection.pages[index]
            assert opened.tab.evaluate(COLOURED) == [t for t in share.refreshed if t not in page.unplaced]
            for at, grid in enumerate(page.grids):
                assert lines_of(opened.tab.evaluate(OUTLINE_OF, at)) == outline_of(
                    opened.tab, at, grid, share.refreshed
                )
            counts = [len(grid.held(share.refreshed)) for grid in page.grids]
            counts += [len(set(share.refreshed).intersection(page.unplaced))] if page.unplaced else []
            assert opened.tab.locator("article:not([hidden]) .held").all_inner_texts() == [str(n) for n in counts]


def test_pages_stored_without_their_tiles_are_read_anew(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version's entry does not say how the page was cut: it is not taken for one that does."""
    model = load(str(MATRIX["internvl"].save(tmp_path / "model")))
    Image.new("RGB", SIZE, "white").save(tmp_path / "page.png")
    request = [DocumentRequest(tmp_path / "page.png")]

    def ingested() -> IngestedPage:
        return Session(model, store).ingest(request).pages[0]

    with monkeypatch.context() as earlier:
        earlier.setattr(InternVL, "revision", 1)
        earlier.setattr(InternVL, "layout", lambda self, image, processed, tokens: {"tokens": tokens})
        earlier.setattr(InternVL, "grids", lambda self, layout: (TokenGrid("page"),))
        old = ingested()
    new = ingested()
    assert (old.status, new.status, ingested().status) == ("stored", "stored", "present")
    assert old.key != new.key
    inspection, _ = _inspected(model, store, Image.new("RGB", SIZE, "white"), tmp_path)
    assert [grid.name for grid in inspection.pages[0].grids] == ["tiles", "overview"]


def test_the_bundled_models_entries_of_before_are_found_still(model: Model) -> None:
    assert model.vlm.revision == 1
