"""Pictures: every kind that people have, checked by pixels."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from conduit_cli.documents import DocumentUnsupported, Page, open_document
from conduit_cli.documents._sniff import sniff
from tests.documents.makers import QUADRANTS, png, saved, tiny_png
from tests.documents.test_faults import budget
from tests.documents.test_pdf_pixels import corners

WHITE = (255, 255, 255)
ORIENTATION = 0x0112


def shown(data: bytes, tmp_path: Path, name: str = "picture.bin", number: int = 1) -> Page:
    path = tmp_path / name
    path.write_bytes(data)
    with open_document(path) as document:
        assert document.kind == "image"
        return document.render(number, budget)


def four_colours(width: int = 80, height: int = 48) -> Image.Image:
    image = Image.new("RGB", (width, height))
    for index, colour in enumerate(QUADRANTS.values()):
        column, row = index % 2, index // 2
        image.paste(
            colour, (column * width // 2, row * height // 2, (column + 1) * width // 2, (row + 1) * height // 2)
        )
    return image


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "GIF", "BMP", "WEBP", "AVIF", "JPEG2000"])
def test_kind_by_content_whatever_the_name(kind: str, tmp_path: Path) -> None:
    page = shown(saved(four_colours(), kind), tmp_path, "wrong.pdf")
    assert page.image.size == (80, 48) and page.notes == ()
    assert corners(page.image) == list(QUADRANTS.values())


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_gives_the_same_pixels(kind: str, orientation: int, tmp_path: Path) -> None:
    back = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    upright = four_colours()
    stored = upright.transpose(back[orientation]) if orientation > 1 else upright
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    options: dict[str, Any] = {"lossless": True} if kind == "WEBP" else {}
    page = shown(saved(stored, kind, exif=exif.tobytes(), **options), tmp_path)
    assert page.image.size == (80, 48)
    assert corners(page.image) == list(QUADRANTS.values())
    if kind in ("PNG", "TIFF", "WEBP"):
        assert page.digest == shown(saved(upright, "PNG"), tmp_path).digest


def test_orientation_out_of_range_is_none(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = 77
    assert corners(shown(saved(four_colours(), "PNG", exif=exif.tobytes()), tmp_path).image) == list(QUADRANTS.values())


def test_cmyk_jpeg_with_adobe_marker(tmp_path: Path) -> None:
    data = saved(four_colours().convert("CMYK"), "JPEG", quality=95)
    assert b"Adobe" in data
    assert corners(shown(data, tmp_path).image) == list(QUADRANTS.values())


def test_cmyk_tiff(tmp_path: Path) -> None:
    assert corners(shown(saved(four_colours().convert("CMYK"), "TIFF"), tmp_path).image) == list(QUADRANTS.values())


@pytest.mark.parametrize("value", [0, 0x1234, 0x80FF, 0xFFFF])
def test_16_bit_grey_keeps_its_brightness(value: int, tmp_path: Path) -> None:
    row = b"\x00" + struct.pack(">H", value) * 40
    page = shown(png(40, 40, 16, 0, row * 40), tmp_path)
    assert page.image.getpixel((5, 5)) == pytest.approx((value / 257,) * 3, abs=1)


def test_16_bit_grey_ramp_is_not_white(tmp_path: Path) -> None:
    rows = b"".join(b"\x00" + b"".join(struct.pack(">H", x * 1000) for x in range(60)) for _ in range(40))
    image = shown(png(60, 40, 16, 0, rows), tmp_path).image
    for x in (0, 20, 59):
        assert image.getpixel((x, 9)) == pytest.approx((x * 1000 / 257,) * 3, abs=1)


@pytest.mark.parametrize("depth", [8, 16])
def test_grey_with_alpha_is_not_black(depth: int, tmp_path: Path) -> None:
    """Black ink on transparent paper: the paper is white, half transparent ink is grey."""
    top = (1 << depth) - 1
    code = ">BB" if depth == 8 else ">HH"
    row = b"\x00" + struct.pack(code, 0, 0) * 20 + struct.pack(code, 0, top) * 20 + struct.pack(code, 0, top // 2) * 20
    image = shown(png(60, 40, depth, 4, row * 40), tmp_path).image
    assert [image.getchannel(0).getpixel((x, 20)) for x in (5, 25, 45)] == pytest.approx([255, 0, 128], abs=2)


def test_16_bit_colour_and_colour_with_alpha(tmp_path: Path) -> None:
    opaque = b"\x00" + struct.pack(">HHH", 0xFFFF, 0x8000, 0) * 40
    assert shown(png(40, 40, 16, 2, opaque * 40), tmp_path).image.getpixel((9, 9)) == pytest.approx(
        (255, 128, 0), abs=1
    )
    clear = b"\x00" + struct.pack(">HHHH", 0, 0, 0, 0) * 20 + struct.pack(">HHHH", 0, 0, 0xFFFF, 0xFFFF) * 20
    image = shown(png(40, 40, 16, 6, clear * 40), tmp_path).image
    assert [image.getpixel((x, 9)) for x in (9, 30)] == [WHITE, (0, 0, 255)]


def test_hidden_colours_do_not_show(tmp_path: Path) -> None:
    """Two pictures that differ only under fully transparent pixels are the same page."""
    digests = set()
    for hidden in ((255, 0, 0, 0), (0, 99, 0, 0)):
        image = Image.new("RGBA", (40, 40), hidden)
        image.paste((0, 0, 0, 255), (0, 0, 20, 20))
        for kind in ("PNG", "WEBP", "TIFF"):
            options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
            page = shown(saved(image, kind, **options), tmp_path)
            digests.add(page.digest)
            assert page.image.getpixel((30, 30)) == WHITE
    assert len(digests) == 1


@pytest.mark.parametrize("mode", ["P", "P with alphas", "L", "RGB", "1", "LA"])
def test_transparent_colour_on_white(mode: str, tmp_path: Path) -> None:
    black = Image.new("L", (40, 40), 0)
    if mode == "LA":
        data = saved(Image.merge("LA", (black, black)), "PNG")
    elif mode == "P with alphas":
        data = saved(black.convert("P"), "PNG", transparency=bytes(256))
    else:
        transparency: Any = (0, 0, 0) if mode == "RGB" else 0
        data = saved(black.convert(mode), "PNG", transparency=transparency)
    assert shown(data, tmp_path).image.getpixel((9, 9)) == WHITE


def test_transparent_gif_on_white(tmp_path: Path) -> None:
    image = Image.new("P", (40, 40), 1)
    image.putpalette([0, 0, 0, 255, 0, 0])
    assert shown(saved(image, "GIF", transparency=1), tmp_path).image.getpixel((9, 9)) == WHITE


def test_float_and_deep_tiffs_have_a_defined_look(tmp_path: Path) -> None:
    ramp = Image.linear_gradient("L").resize((64, 64)).convert("F")
    unit = shown(saved(ramp.point(lambda v: v * (1 / 255) + 0), "TIFF"), tmp_path)
    assert unit.image.getextrema()[0] == pytest.approx(ramp.getextrema(), abs=1) and unit.notes == ()
    wide = shown(saved(ramp.point(lambda v: v * 1000 + -9), "TIFF"), tmp_path)
    assert wide.image.getextrema()[0] == (0, 255) and "no fixed range" in wide.notes[0]
    deep = shown(saved(ramp.convert("I").point(lambda v: v * 257 + 0), "TIFF"), tmp_path)
    assert deep.image.getextrema()[0] == pytest.approx(ramp.getextrema(), abs=1)


@pytest.mark.parametrize("mode", ["1", "L", "P", "LAB", "YCbCr", "CMYK", "I;16", "RGBA"])
def test_any_tiff_mode_comes_out(mode: str, tmp_path: Path) -> None:
    grey = Image.linear_gradient("L").resize((64, 64))
    if mode == "LAB":
        image = Image.merge("LAB", (grey, grey, grey))
    else:
        image = grey.convert("I" if mode == "I;16" else "RGB").convert(mode)
    assert shown(saved(image, "TIFF"), tmp_path).image.mode == "RGB"


def test_tiff_pages_and_their_order(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (50 + n, 40), (n * 40, 0, 0)) for n in range(5)]
    path = tmp_path / "a.tif"
    path.write_bytes(saved(frames[0], "TIFF", save_all=True, append_images=frames[1:], compression="tiff_lzw"))
    with open_document(path) as document:
        assert document.page_count == 5
        for number in (5, 1, 3, 2, 4, 3):
            page = document.render(number, budget)
            assert page.image.size == (49 + number, 40)
            assert page.image.getpixel((0, 0)) == ((number - 1) * 40, 0, 0)


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "AVIF"])
def test_animation_shows_its_first_frame_and_says_so(kind: str, tmp_path: Path) -> None:
    frames = [Image.new("RGB", (48, 48), colour) for colour in ("red", "lime", "blue")]
    path = tmp_path / "a"
    path.write_bytes(saved(frames[0], kind, save_all=True, append_images=frames[1:], duration=100))
    with open_document(path) as document:
        assert document.page_count == 1
        assert document.notes == ("animated: only the first of 3 frames is read",)
        assert document.render(1, budget).image.getpixel((24, 24)) == pytest.approx((255, 0, 0), abs=5)


def test_apng_whose_default_image_is_no_frame(tmp_path: Path) -> None:
    still, moving = (Image.new("RGB", (48, 48), colour) for colour in ("red", "blue"))
    data = saved(still, "PNG", save_all=True, append_images=[moving, moving.rotate(1)], default_image=True)
    assert shown(data, tmp_path).image.getpixel((9, 9)) == (255, 0, 0)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((1, 1), (32, 32)),
        ((31, 639), (32, 639)),
        ((690, 15420), (690, 15420)),
        ((9000, 5), (9000, 90)),
        ((2, 4000), (40, 4000)),
    ],
)
def test_extreme_shapes_are_padded_with_white(size: tuple[int, int], expected: tuple[int, int], tmp_path: Path) -> None:
    page = shown(saved(Image.new("L", size, 0), "PNG"), tmp_path)
    assert page.image.size == expected
    assert page.image.getpixel((0, 0)) == (0, 0, 0)
    if size != expected:
        assert page.image.getpixel((expected[0] - 1, expected[1] - 1)) == WHITE
        assert any("padded" in note for note in page.notes)


def test_photo_with_two_pictures_inside_is_one_page(tmp_path: Path) -> None:
    """Phones write MPO: a JPEG followed by another (depth map, second eye)."""
    frames = [four_colours(), Image.new("RGB", (40, 40), "white")]
    data = saved(frames[0], "MPO", save_all=True, append_images=frames[1:])
    page = shown(data, tmp_path, "photo.jpg")
    assert page.image.size == (80, 48) and corners(page.image) == list(QUADRANTS.values())


@pytest.mark.parametrize(
    ("head", "label"),
    [
        (b"\x00\x00\x01\x00\x01\x00", "icon"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b"\xef\xbb\xbf  <?xml version='1.0'?><!-- x --><svg/>", "SVG"),
        (b"8BPS\x00\x01", "Photoshop"),
        (b"\x00\x00\x00 ftypisom\x00\x00\x02\x00isomiso2", "video"),
        (b"/annex/objects/SHA256E-s1", "git-annex"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "office"),
        (b"\x7fELF\x02\x01", "no PDF and no picture"),
        ("Grüße aus Köln".encode(), "text"),
    ],
)
def test_what_it_is_and_what_to_do(head: bytes, label: str, tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(head)
    with pytest.raises(DocumentUnsupported, match=label) as caught:
        open_document(path)
    assert caught.value.hint and caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("head", "reader"),
    [
        (b"\x00\x00\x00\x20ftypavif\x00\x00\x00\x00avifmif1miafMA1A", "AVIF"),
        (b"\x00\x00\x00\x1cftypmif1\x00\x00\x00\x00mif1avifmiaf", "AVIF"),
        (b"\x00\x00\x00\x18ftypmif1\x00\x00\x00\x00mif1heic", "HEIF"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "WEBP"),
        (b"\n\n%PDF-1.4", "pdf"),
        (b"MM\x00*\x00\x00\x00\x08", "TIFF"),
    ],
)
def test_sniffed_reader(head: bytes, reader: str) -> None:
    assert sniff(head).reader == reader


def test_rgb_of_a_plain_png_is_untouched(tmp_path: Path) -> None:
    data = tiny_png()
    path = tmp_path / "plain.png"
    path.write_bytes(data)
    with Image.open(path) as image:
        assert shown(data, tmp_path).image.tobytes() == image.tobytes()
