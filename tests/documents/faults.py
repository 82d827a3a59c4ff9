"""Input faults tried on purpose: how each file is made and how it must end.

`FAULTS` is the table that `make faults` prints; `test_faults.py` holds the program to it. Outcomes:
`refused` (an InputError when opening), `page` (opens, but that page fails), `read` (all pages come out).
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from PIL import Image

from tests.documents.makers import numbered_pdf, png, quadrants, raw_pdf, saved, tiny_png

__all__ = ["FAULTS", "Fault"]


@dataclass(frozen=True)
class Fault:
    """One bad file.

    Attributes:
        name: what is wrong, in words.
        file: the name that the file gets.
        make: its bytes.
        outcome: see the module.
        says: a piece of text that the error (or a note, if it is read) must contain.
        error: the error class's name, for what is not read.
    """

    name: str
    file: str
    make: Callable[[], bytes]
    outcome: Literal["refused", "page", "read"]
    says: str = ""
    error: str = ""


def _cut(data: bytes, share: float) -> bytes:
    return data[: int(len(data) * share)]


def _broken_startxref() -> bytes:
    head, _ = numbered_pdf(3).rsplit(b"startxref", 1)
    return head + b"startxref\n99999999\n%%EOF\n"


def _broken_xref() -> bytes:
    return numbered_pdf(3).replace(b" 00000 n", b" 00000 x")


def _no_header() -> bytes:
    return numbered_pdf(2).split(b"\n", 1)[1]


def _no_pages() -> bytes:
    return raw_pdf([])


def _page_tree_loop() -> bytes:
    return raw_pdf([("/MediaBox [0 0 9 9]", b"")], {3: b"<< /Type /Pages /Kids [2 0 R] /Count 1 >>"}, kids="3 0 R")


def _nothing_but_catalog() -> bytes:
    return b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\ntrailer << /Root 1 0 R >>\n%%EOF\n"


def _bomb_png() -> bytes:
    return png(60_000, 60_000, 8, 2, b"\x00")


def _bomb_tiff_frame() -> bytes:
    """A two-frame TIFF whose second header claims 60,000 x 60,000 pixels."""
    small = Image.new("L", (77, 51), 9)
    data = saved(small, "TIFF", save_all=True, append_images=[small])
    first = data.find(struct.pack("<HHII", 256, 4, 1, 77))
    kind = 4
    if first < 0:
        kind, first = 3, data.find(struct.pack("<HHIHH", 256, 3, 1, 77, 0))
    second = data.find(data[first : first + 12], first + 12)
    huge = bytearray(data)
    for offset, tag in ((second, 256), (second + 12, 257)):
        huge[offset : offset + 12] = struct.pack("<HHII", tag, kind, 1, 60_000)
    return bytes(huge)


def _locked(**options: str) -> bytes:
    return numbered_pdf(1, encryption=5, **options)


def _gif_header_only() -> bytes:
    return b"GIF89a\x40\x00\x40\x00\x00\x00\x00"


def _icon() -> bytes:
    return saved(Image.new("RGB", (32, 32), "red"), "ICO")


def _heic() -> bytes:
    return struct.pack(">I", 24) + b"ftypheic\x00\x00\x00\x00heicmif1" + bytes(64)


def _animation(kind: str) -> bytes:
    frames = [Image.new("RGB", (48, 48), colour) for colour in ("red", "green", "blue")]
    frames[0].putpixel((0, 0), (255, 255, 255))
    return saved(frames[0], kind, save_all=True, append_images=frames[1:], duration=100)


def _surrogates() -> bytes:
    return raw_pdf([("/MediaBox [0 0 100 100]", b"\xed\xa0\x80\xff\xfe Q q \xed\xb0\x80 1 0 0 rg 9 9 9 9 re f ( \xd8")])


def _loop_in_the_middle() -> bytes:
    page = ("/MediaBox [0 0 100 100]", quadrants(0, 0, 100, 100))
    loop = b"<< /Type /Pages /Parent 2 0 R /Kids [3 0 R] /Count 1 >>"
    return raw_pdf([page, page, page], {3: loop}, kids="10 0 R 3 0 R 14 0 R")


def _absent_page() -> bytes:
    page = ("/MediaBox [0 0 100 100]", quadrants(0, 0, 100, 100))
    return raw_pdf([page, page, page], kids="10 0 R 77 0 R 14 0 R")


def _nested_states() -> bytes:
    page = ("/MediaBox [0 0 100 100]", quadrants(0, 0, 100, 100))
    return raw_pdf([page, (page[0], b"q " * 100_000), page])


def _damaged_stream() -> bytes:
    broken = b"<< /Filter /FlateDecode /Length 9 >>\nstream\n123456789\nendstream"
    return raw_pdf([("/MediaBox [0 0 100 100] /Contents 3 0 R", b"")], {3: broken})


def _sized_pdf(width: float, height: float) -> bytes:
    return raw_pdf([(f"/MediaBox [0 0 {width} {height}]", quadrants(0, 0, width, height))])


def _huge_image_pdf() -> bytes:
    """A few hundred bytes that declare a picture of 40,000 x 40,000 pixels."""
    picture = (
        b"<< /Type /XObject /Subtype /Image /Width 40000 /Height 40000 /BitsPerComponent 8"
        b" /ColorSpace /DeviceRGB /Length 4 >>\nstream\nabcd\nendstream"
    )
    entries = "/MediaBox [0 0 100 100] /Resources << /XObject << /I 5 0 R >> >>"
    return raw_pdf([(entries, b"q 100 0 0 100 0 0 cm /I Do Q")], {5: picture})


def _exif_garbage() -> bytes:
    data = saved(Image.new("RGB", (40, 40), "red"), "JPEG")
    return data[:2] + b"\xff\xe1\x00\x10Exif\x00\x00MM\x00*\xff\xff\xff\xff" + data[2:]


def _jpeg_in_tiff() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 40), "red").save(buffer, "TIFF", compression="jpeg")
    return buffer.getvalue()


FAULTS: tuple[Fault, ...] = (
    Fault("an empty file", "a.pdf", lambda: b"", "refused", "empty", "DocumentDamaged"),
    Fault(
        "a web page named .pdf",
        "a.pdf",
        lambda: b"<!DOCTYPE html><html></html>",
        "refused",
        "web page",
        "DocumentUnsupported",
    ),
    Fault("text named .pdf", "a.pdf", lambda: b"just words\n", "refused", "text", "DocumentUnsupported"),
    Fault(
        "an office document", "a.docx", lambda: b"PK\x03\x04" + bytes(60), "refused", "office", "DocumentUnsupported"
    ),
    Fault("random bytes", "a.pdf", lambda: bytes(range(256)) * 9, "refused", "no PDF", "DocumentUnsupported"),
    Fault("a PDF header and nothing else", "a.pdf", lambda: b"%PDF-1.7\n", "refused", "", "DocumentDamaged"),
    Fault("a PDF without page tree", "a.pdf", _nothing_but_catalog, "refused", "", "DocumentDamaged"),
    Fault("a PDF with zero pages", "a.pdf", _no_pages, "refused", "no pages", "DocumentDamaged"),
    Fault("a page tree that contains itself", "a.pdf", _page_tree_loop, "page", "cycle", "PageError"),
    Fault("a locked PDF", "a.pdf", lambda: _locked(user_pw="u", owner_pw="o"), "refused", "locked", "DocumentLocked"),
    Fault("an owner password only", "a.pdf", lambda: _locked(owner_pw="o"), "read"),
    Fault("startxref that points nowhere", "a.pdf", _broken_startxref, "read", "rebuilt"),
    Fault("a damaged cross-reference table", "a.pdf", _broken_xref, "read"),
    Fault("a PDF without its first line", "a.pdf", _no_header, "read"),
    Fault("a PDF cut at the half", "a.pdf", lambda: _cut(numbered_pdf(4), 0.5), "refused", "", "DocumentDamaged"),
    Fault("junk before the PDF header", "a.pdf", lambda: b"x" * 500 + numbered_pdf(2), "read"),
    Fault("a page in the middle that contains itself", "a.pdf", _loop_in_the_middle, "page", "Page 2", "PageError"),
    Fault("a page in the middle that is not there", "a.pdf", _absent_page, "read", "solid colour"),
    Fault("100,000 nested graphics states", "a.pdf", _nested_states, "page", "Page 2", "PageError"),
    Fault("a page whose content is damaged", "a.pdf", _damaged_stream, "read", "solid colour"),
    Fault("a page of 200 x 200 metres", "a.pdf", lambda: _sized_pdf(567_000, 567_000), "read"),
    Fault("a page of 1 x 1 points", "a.pdf", lambda: _sized_pdf(1, 1), "read"),
    Fault("a page of 14,400 x 1 points", "a.pdf", lambda: _sized_pdf(14_400, 1), "read", "padded"),
    Fault("a page of no size", "a.pdf", lambda: _sized_pdf(0, 0), "read"),
    Fault("a page that declares a gigabyte of pixels", "a.pdf", _huge_image_pdf, "read"),
    Fault("lone surrogates in the content", "a.pdf", _surrogates, "read"),
    Fault("a PDF named .png", "a.png", lambda: numbered_pdf(2), "read"),
    Fault("a PNG named .pdf", "a.pdf", tiny_png, "read"),
    Fault("a WebP named .jpg", "a.jpg", lambda: saved(Image.new("RGB", (40, 40), "red"), "WEBP"), "read"),
    Fault(
        "a PNG that declares 60,000 x 60,000 pixels", "a.png", _bomb_png, "refused", "60000 x 60000", "DocumentTooLarge"
    ),
    Fault("a TIFF whose second page is a bomb", "a.tif", _bomb_tiff_frame, "page", "60000 x 60000", "PageError"),
    Fault("a PNG cut at the half", "a.png", lambda: _cut(tiny_png(), 0.5), "page", "Page 1", "PageError"),
    Fault(
        "a JPEG cut at the half",
        "a.jpg",
        lambda: _cut(saved(Image.effect_noise((64, 64), 90), "JPEG"), 0.5),
        "page",
        "Page 1",
        "PageError",
    ),
    Fault(
        "a JPEG of 20 bytes",
        "a.jpg",
        lambda: saved(Image.new("L", (9, 9)), "JPEG")[:20],
        "refused",
        "",
        "DocumentDamaged",
    ),
    Fault("a GIF with no frame", "a.gif", _gif_header_only, "refused", "", "DocumentDamaged"),
    Fault("an animated GIF", "a.gif", lambda: _animation("GIF"), "read", "first of 3"),
    Fault("an animated PNG", "a.png", lambda: _animation("PNG"), "read", "first of 3"),
    Fault("an animated WebP", "a.webp", lambda: _animation("WEBP"), "read", "first of 3"),
    Fault("an icon named .png", "a.png", _icon, "refused", "icon", "DocumentUnsupported"),
    Fault(
        "an SVG named .jpg",
        "a.jpg",
        lambda: b"<?xml version='1.0'?>\n<svg></svg>",
        "refused",
        "SVG",
        "DocumentUnsupported",
    ),
    Fault(
        "a Git LFS pointer named .jpg",
        "a.jpg",
        lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        "refused",
        "LFS",
        "DocumentUnsupported",
    ),
    Fault(
        "a text pointer named .jpg",
        "a.jpg",
        lambda: b"../../pictures/real.jpg",
        "refused",
        "text",
        "DocumentUnsupported",
    ),
    Fault("a HEIC picture without a decoder", "a.heic", _heic, "refused", "HEIC", "InputError"),
    Fault("EXIF data of garbage", "a.jpg", _exif_garbage, "read"),
    Fault("a TIFF with JPEG inside", "a.tif", _jpeg_in_tiff, "read"),
    Fault("a picture of one pixel", "a.png", lambda: tiny_png(1, 1), "read", "padded"),
    Fault("a picture of 31 x 639", "a.png", lambda: tiny_png(31, 639), "read", "padded"),
    Fault("a picture of 690 x 15420", "a.png", lambda: tiny_png(690, 15420), "read"),
    Fault("a picture of 5 x 9000", "a.png", lambda: tiny_png(5, 9000), "read", "padded"),
)
