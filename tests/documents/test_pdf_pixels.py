"""PDF pages look as a viewer shows them: checked by colours at known places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pymupdf
import pytest
from PIL import Image

from conduit_cli.documents import Page, open_document
from tests.documents.makers import QUADRANTS, numbered_pdf, quadrants, raw_pdf

RED, GREEN, BLUE, BLACK = QUADRANTS.values()
WHITE = (255, 255, 255)


def exactly(width: int, height: int) -> Any:
    return lambda _w, _h: (width, height)


def draw(data: bytes, tmp_path: Path, number: int = 1, width: int = 200, height: int = 100) -> Page:
    path = tmp_path / "drawn.pdf"
    path.write_bytes(data)
    with open_document(path) as document:
        return document.render(number, exactly(width, height))


def corners(image: Image.Image, inset: float = 0.1) -> list[tuple[int, ...]]:
    """Colours near the four corners: top left, top right, bottom left, bottom right."""
    x, y = round(image.width * inset), round(image.height * inset)
    places = ((x, y), (image.width - 1 - x, y), (x, image.height - 1 - y), (image.width - 1 - x, image.height - 1 - y))
    return [plain(image.getpixel(place)) for place in places]


def plain(colour: Any) -> tuple[int, ...]:
    return tuple(255 if value > 127 else 0 for value in colour)


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (0, [RED, GREEN, BLUE, BLACK]),
        (90, [BLUE, RED, BLACK, GREEN]),
        (180, [BLACK, BLUE, GREEN, RED]),
        (270, [GREEN, BLACK, RED, BLUE]),
        (-90, [GREEN, BLACK, RED, BLUE]),
        (450, [BLUE, RED, BLACK, GREEN]),
    ],
)
def test_rotated_page(turn: int, expected: list[tuple[int, ...]], tmp_path: Path) -> None:
    data = raw_pdf([(f"/MediaBox [0 0 200 100] /Rotate {turn}", quadrants(0, 0, 200, 100))])
    path = tmp_path / "a.pdf"
    path.write_bytes(data)
    with open_document(path) as document:
        assert document.page_size(1) == ((100, 200) if turn % 180 else (200, 100))
        assert corners(document.render(1, lambda w, h: (int(w), int(h))).image) == expected


@pytest.mark.parametrize(
    "box",
    [
        "0 0 200 100",
        "200 100 0 0",
        "0 100 200 0",
        "-50 -20 150 80",
        "0.25 0.5 200.75 100.9",
        "1000.5 2000.5 1003.5 2002",
    ],
)
def test_reversed_shifted_and_fractional_boxes(box: str, tmp_path: Path) -> None:
    """The quarters of the box fill the quarters of the picture, whatever corner is named first."""
    a, b, c, d = (float(value) for value in box.split())
    left, bottom, width, height = min(a, c), min(b, d), abs(c - a), abs(d - b)
    page = draw(raw_pdf([(f"/MediaBox [{box}]", quadrants(left, bottom, width, height))]), tmp_path)
    assert page.image.size == (200, 100)
    assert corners(page.image, 0.01) == [RED, GREEN, BLUE, BLACK]


def test_crop_box_shows_only_the_crop(tmp_path: Path) -> None:
    data = raw_pdf([("/MediaBox [0 0 400 400] /CropBox [100 100 300 200]", quadrants(100, 100, 200, 100))])
    assert corners(draw(data, tmp_path).image, 0.01) == [RED, GREEN, BLUE, BLACK]


def test_crop_box_beyond_the_media_box(tmp_path: Path) -> None:
    data = raw_pdf([("/MediaBox [0 0 200 100] /CropBox [-500 -500 900 900]", quadrants(0, 0, 200, 100))])
    assert corners(draw(data, tmp_path).image, 0.02) == [RED, GREEN, BLUE, BLACK]


def test_user_unit_and_exact_size(tmp_path: Path) -> None:
    data = raw_pdf([("/MediaBox [0 0 200 100] /UserUnit 10", quadrants(0, 0, 200, 100))])
    for width, height in ((37, 1001), (28, 28), (1, 1), (333, 111)):
        page = draw(data, tmp_path, 1, width, height)
        assert page.image.crop((0, 0, width, height)).size == (width, height)
        if width > 30 and height > 30:
            assert page.image.size == (width, height)
            assert corners(page.image, 0.05) == [RED, GREEN, BLUE, BLACK]


def test_transparent_page_is_white(tmp_path: Path) -> None:
    page = draw(raw_pdf([("/MediaBox [0 0 200 100]", b"1 0 0 rg 0 0 20 10 re f")]), tmp_path)
    assert corners(page.image, 0.03) == [WHITE, WHITE, RED, WHITE]


def test_very_long_page_is_padded_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(raw_pdf([("/MediaBox [0 0 14400 1]", quadrants(0, 0, 14400, 1))]))
    seen = []
    with open_document(path) as document:

        def fit(width: float, height: float) -> tuple[int, int]:
            seen.append((width, height))
            return 3200, 32

        page = document.render(1, fit)
    assert seen == [(14400, 144)]
    assert page.image.size == (3200, 32)
    assert plain(page.image.getpixel((1600, 20))) == WHITE
    assert any("padded" in note for note in page.notes)


def test_filled_form_with_and_without_appearance(tmp_path: Path) -> None:
    document = pymupdf.open()
    page = document.new_page(width=200, height=100)
    field = pymupdf.Widget()
    field.rect, field.field_name = pymupdf.Rect(10, 10, 190, 40), "name"
    field.field_type, field.field_value = pymupdf.PDF_WIDGET_TYPE_TEXT, "MMMMMMMM"
    field.text_fontsize = 20
    page.add_widget(field)
    tick = pymupdf.Widget()
    tick.rect, tick.field_name = pymupdf.Rect(10, 60, 40, 90), "agree"
    tick.field_type, tick.field_value = pymupdf.PDF_WIDGET_TYPE_CHECKBOX, True
    page.add_widget(tick)
    assert _dark(draw(document.tobytes(), tmp_path).image, (10, 10, 190, 40)) > 300
    assert _dark(draw(document.tobytes(), tmp_path).image, (10, 60, 40, 90)) > 30
    document.xref_set_key(next(page.widgets()).xref, "AP", "null")
    assert _dark(draw(document.tobytes(), tmp_path).image, (10, 10, 190, 40)) > 300


def test_form_value_newer_than_its_appearance(tmp_path: Path) -> None:
    """With /NeedAppearances a viewer draws the value, not the stale (empty) appearance."""
    field = (
        b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (a) /V (MMMMMMMM) /Rect [10 10 190 40] /F 4"
        b" /DA (/Helv 20 Tf 0 g) /P 10 0 R /AP << /N 6 0 R >> >>"
    )
    empty = b"<< /Type /XObject /Subtype /Form /BBox [0 0 180 30] /Length 0 >>\nstream\n\nendstream"
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    form = (
        "/AcroForm << /Fields [5 0 R] /NeedAppearances true /DR << /Font << /Helv 7 0 R >> >> /DA (/Helv 20 Tf 0 g) >>"
    )
    data = raw_pdf([("/MediaBox [0 0 200 100] /Annots [5 0 R]", b"")], {5: field, 6: empty, 7: font}, form)
    assert _dark(draw(data, tmp_path).image, (10, 60, 190, 90)) > 300


def test_stamps_ink_and_hidden_annotations(tmp_path: Path) -> None:
    document = pymupdf.open()
    page = document.new_page(width=200, height=100)
    page.add_stamp_annot(pymupdf.Rect(10, 10, 90, 40), 0)
    page.add_highlight_annot(pymupdf.Rect(110, 10, 190, 40))
    note = page.add_freetext_annot(pymupdf.Rect(10, 60, 90, 90), "MMMM", fontsize=20)
    hidden = page.add_rect_annot(pymupdf.Rect(110, 60, 190, 90))
    hidden.set_colors(fill=(0, 0, 0))
    hidden.update()
    hidden.set_flags(pymupdf.PDF_ANNOT_IS_HIDDEN)
    assert note.rect
    image = draw(document.tobytes(), tmp_path).image
    for box in ((10, 10, 90, 40), (110, 10, 190, 40), (10, 60, 90, 90)):
        assert image.crop(box).getextrema() != ((255, 255),) * 3, box
    assert image.crop((110, 60, 190, 90)).getextrema() == ((255, 255),) * 3


def test_blank_page_is_noted_and_text_is_not(tmp_path: Path) -> None:
    data = raw_pdf([("/MediaBox [0 0 200 100]", b""), ("/MediaBox [0 0 200 100]", b"0 0 1 rg 0 0 200 100 re f")])
    assert "one solid colour (white)" in draw(data, tmp_path).notes[0]
    assert "one solid colour (#" in draw(data, tmp_path, 2).notes[0]
    assert draw(numbered_pdf(1), tmp_path).notes == ()


def test_same_pixels_same_digest(tmp_path: Path) -> None:
    """The digest is of pixels and size: not of the file, the page number or the path."""
    content = quadrants(0, 0, 200, 100)
    one = raw_pdf([("/MediaBox [0 0 200 100]", content)])
    two = raw_pdf([("/MediaBox [0 0 200 100]", b""), ("/MediaBox [0 0 200 100]", content + b"\n%other")])
    first, second = draw(one, tmp_path), draw(two, tmp_path, 2)
    assert first.digest == second.digest
    assert draw(one, tmp_path, 1, 100, 200).digest != first.digest
    assert draw(two, tmp_path, 1).digest != first.digest


def _dark(image: Image.Image, box: tuple[int, int, int, int]) -> int:
    """Pixels in a box that are darker than mid grey."""
    return sum(image.crop(box).convert("L").histogram()[:128])
