"""What a file is, told from its first bytes: never from its name."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["HEAD_BYTES", "Kind", "sniff"]

HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Kind:
    """A verdict.

    Attributes:
        reader: `pdf`, a Pillow format name, or None for what can't be read.
        label: what to call it in a sentence, with its article.
        hint: what to do about it, for what can't be read.
    """

    reader: str | None
    label: str
    hint: str = ""


_TO_PDF = "Export it as a PDF first, for example with: soffice --headless --convert-to pdf FILE"
_TO_PNG = "Convert it to PNG or JPEG first."
_FETCH = "Fetch the real file first, for example with: {}"

_HEADS: tuple[tuple[bytes, Kind], ...] = (
    (b"\x89PNG\r\n\x1a\n", Kind("PNG", "a PNG picture")),
    (b"\xff\xd8\xff", Kind("JPEG", "a JPEG picture")),
    (b"GIF8", Kind("GIF", "a GIF picture")),
    (b"II*\x00", Kind("TIFF", "a TIFF picture")),
    (b"MM\x00*", Kind("TIFF", "a TIFF picture")),
    (b"II+\x00", Kind("TIFF", "a TIFF picture")),
    (b"MM\x00+", Kind("TIFF", "a TIFF picture")),
    (b"BM", Kind("BMP", "a BMP picture")),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", Kind("JPEG2000", "a JPEG 2000 picture")),
    (b"\xff\x4f\xff\x51", Kind("JPEG2000", "a JPEG 2000 picture")),
    (b"\x00\x00\x01\x00", Kind(None, "an icon (ICO)", _TO_PNG)),
    (b"\x00\x00\x02\x00", Kind(None, "a cursor (CUR)", _TO_PNG)),
    (b"8BPS", Kind(None, "a Photoshop file", _TO_PNG)),
    (b"\xff\x0a", Kind(None, "a JPEG XL picture", _TO_PNG)),
    (b"\x00\x00\x00\x0cJXL \r\n\x87\n", Kind(None, "a JPEG XL picture", _TO_PNG)),
    (b"AT&TFORM", Kind(None, "a DjVu document", "Convert it to PDF first, for example with: ddjvu -format=pdf")),
    (b"%!PS", Kind(None, "a PostScript file", "Convert it first, for example with: ps2pdf FILE")),
    (b"PK\x03\x04", Kind(None, "a zip archive or an office document", _TO_PDF)),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Kind(None, "an old office document", _TO_PDF)),
    (b"{\\rtf", Kind(None, "a rich text (RTF) document", _TO_PDF)),
    (b"\x1f\x8b", Kind(None, "a gzip archive", "Unpack it first with: gunzip FILE")),
    (b"\x28\xb5\x2f\xfd", Kind(None, "a zstd archive", "Unpack it first with: unzstd FILE")),
    (b"version https://git-lfs", Kind(None, "a Git LFS pointer, not the file itself", _FETCH.format("git lfs pull"))),
    (b"/annex/objects/", Kind(None, "a git-annex pointer, not the file itself", _FETCH.format("git annex get FILE"))),
)
_BRANDS: dict[bytes, Kind] = {
    b"avif": Kind("AVIF", "an AVIF picture"),
    b"avis": Kind("AVIF", "an AVIF picture"),
    **dict.fromkeys(
        (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"), Kind("HEIF", "a HEIC picture")
    ),
}
_SVG = Kind(None, "an SVG drawing", "Export it as PDF or PNG first, for example with: rsvg-convert -f pdf FILE")
_HTML = Kind(None, "a web page", "Download the document itself, or print the page to PDF.")
_VIDEO = Kind(None, "a video", "Save the frames that matter as pictures.")
_TEXT = Kind(None, "a text file", "Name a PDF or a picture.")
_UNKNOWN = Kind(None, "no PDF and no picture that Conduit knows", "Name a PDF, JPEG, PNG, TIFF, WebP, GIF or BMP.")
_PDF = Kind("pdf", "a PDF")


def sniff(head: bytes) -> Kind:
    """The kind of a file that starts with `head` (its first HEAD_BYTES bytes or all of them)."""
    for magic, kind in _HEADS:
        if head.startswith(magic):
            return kind
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return Kind("WEBP", "a WebP picture")
    if head[4:8] == b"ftyp":
        return _brand(head)
    if b"%PDF-" in head[:1024]:
        return _PDF
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1024].lower()
    if text.startswith(b"<"):
        if b"<svg" in text:
            return _SVG
        if b"<html" in text or b"<!doctype html" in text:
            return _HTML
    if re.search(rb"\d+ \d+ obj\b", head):  # a PDF that lost its first line: MuPDF can repair it
        return _PDF
    return _TEXT if _is_text(head) else _UNKNOWN


def _brand(head: bytes) -> Kind:
    """ISO media files name their kind among their brands; `mif1` and `msf1` stand for any of them."""
    length = int.from_bytes(head[:4], "big")
    brands = [head[8:12]] + [head[i : i + 4] for i in range(16, min(length, len(head), 128), 4)]
    brands.sort(key=lambda brand: brand in (b"mif1", b"msf1"))
    return next((_BRANDS[brand] for brand in brands if brand in _BRANDS), _VIDEO)


def _is_text(head: bytes) -> bool:
    if b"\x00" in head:
        return False
    try:
        head[:-3].decode("utf-8")  # a character may be cut at the end
    except UnicodeDecodeError as error:
        return error.start > len(head) - 8
    return sum(byte < 32 and byte not in (9, 10, 12, 13) for byte in head) == 0
