"""Small documents for the tests, made on the spot: PDFs written object by object, pictures by Pillow."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import pymupdf
from PIL import Image

__all__ = ["QUADRANTS", "numbered_pdf", "png", "quadrants", "raw_pdf", "saved", "tiny_png"]

QUADRANTS = {"top left": (255, 0, 0), "top right": (0, 255, 0), "bottom left": (0, 0, 255), "bottom right": (0, 0, 0)}


def raw_pdf(
    pages: Sequence[tuple[str, bytes]],
    extra: Mapping[int, bytes] | None = None,
    catalog: str = "",
    kids: str | None = None,
) -> bytes:
    """A PDF whose pages have the given dictionary entries and content streams.

    Objects 1 and 2 are catalog and page tree; page i (from 0) is object 10 + 2i, its content the next one.
    """
    objects: dict[int, bytes] = dict(extra or {})
    listed = " ".join(f"{10 + 2 * i} 0 R" for i in range(len(pages))) if kids is None else kids
    objects[1] = f"<< /Type /Catalog /Pages 2 0 R {catalog} >>".encode()
    objects[2] = f"<< /Type /Pages /Kids [{listed}] /Count {len(pages)} >>".encode()
    for i, (entries, content) in enumerate(pages):
        number = 10 + 2 * i
        objects[number] = (
            f"<< /Type /Page /Parent 2 0 R /Contents {number + 1} 0 R /Resources << >> {entries} >>".encode()
        )
        objects[number + 1] = b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content)
    out = bytearray(b"%PDF-1.7\n")
    table = [b"0000000000 65535 f \n"] * (max(objects) + 1)
    for number, body in sorted(objects.items()):
        table[number] = b"%010d 00000 n \n" % len(out)
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n%b" % (len(table), b"".join(table))
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(table), start)
    return bytes(out)


def quadrants(x: float, y: float, width: float, height: float) -> bytes:
    """A content stream that fills the quarters of a box (in PDF's upward axes) with QUADRANTS' colours."""
    half_w, half_h = width / 2, height / 2
    corners = ((x, y + half_h), (x + half_w, y + half_h), (x, y), (x + half_w, y))
    parts = []
    for (left, bottom), (r, g, b) in zip(corners, QUADRANTS.values(), strict=True):
        parts.append(f"{r / 255} {g / 255} {b / 255} rg {left} {bottom} {half_w} {half_h} re f")
    return "\n".join(parts).encode()


def numbered_pdf(count: int, **saving: Any) -> bytes:
    """`count` pages, each with its number written large."""
    document = pymupdf.open()
    for number in range(1, count + 1):
        document.new_page(width=300, height=200).insert_text((50, 120), f"{number}", fontsize=80)
    data = document.tobytes(**saving)
    document.close()
    return bytes(data)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The image encoded as `kind`."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png(width: int, height: int, depth: int, colour: int, rows: bytes, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG from raw parts; `rows` are unfiltered scan lines, each led by a zero byte."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + body


def tiny_png(width: int = 64, height: int = 48) -> bytes:
    """A colourful small PNG."""
    image = Image.radial_gradient("L").resize((width, height))
    return saved(
        Image.merge(
            "RGB", (image, image.rotate(180), image.transpose(Image.Transpose.ROTATE_90).resize((width, height)))
        ),
        "PNG",
    )
