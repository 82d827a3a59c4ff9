"""Fonts of the generator: the PDF base-14 ones from PyMuPDF, and office-like ones where the system has them."""

from __future__ import annotations

import functools
import io
import pathlib

import numpy as np
import pymupdf
from PIL import Image, ImageDraw, ImageFont

CHARS = [chr(i) for i in range(33, 127)]
BASE14 = [("helv", "hebo"), ("helv", "hebo"), ("tiro", "tibo"), ("cour", "cobo")]
SYSTEM_DIR = pathlib.Path("/usr/share/fonts/truetype")
SYSTEM = [
    ("liberation/LiberationSans-Regular.ttf", "liberation/LiberationSans-Bold.ttf"),
    ("liberation/LiberationSerif-Regular.ttf", "liberation/LiberationSerif-Bold.ttf"),
    ("dejavu/DejaVuSans.ttf", "dejavu/DejaVuSans-Bold.ttf"),
    ("crosextra/Carlito-Regular.ttf", "crosextra/Carlito-Bold.ttf"),
    ("crosextra/Caladea-Regular.ttf", "crosextra/Caladea-Bold.ttf"),
]
SCALE = 4  # glyphs are drawn at four times their size and averaged down, like an anti-aliased PDF page
Glyph = tuple[np.ndarray, int, int]


@functools.cache
def families() -> list[tuple[str, str]]:
    """(regular, bold) of every family at hand; the system ones are optional."""
    found = [(str(SYSTEM_DIR / a), str(SYSTEM_DIR / b)) for a, b in SYSTEM if (SYSTEM_DIR / a).exists()]
    return 2 * BASE14 + found


@functools.cache
def _buffer(name: str) -> bytes:
    if "/" in name:
        return pathlib.Path(name).read_bytes()
    return bytes(pymupdf.Font(name).buffer)


@functools.cache
def face(name: str, size: int) -> ImageFont.FreeTypeFont:
    """A PIL face at a size in pixels."""
    return ImageFont.truetype(io.BytesIO(_buffer(name)), size, layout_engine=ImageFont.Layout.BASIC)


@functools.cache
def _unit_advances(name: str) -> dict[str, float]:
    big = face(name, 1000)
    return {c: big.getlength(c) / 1000 for c in [" ", *CHARS]}


def advances(name: str, size: int, text: str) -> list[float]:
    """Width of every character, unhinted, without kerning."""
    table = _unit_advances(name)
    return [table[c] * size for c in text]


@functools.cache
def glyph(name: str, size: int, char: str, phase: int, hinted: bool) -> Glyph:
    """Coverage (0..1) of a character and its offset from the pen on the baseline; phase is in quarter pixels."""
    if hinted:
        return _draw(face(name, size), char, 0, 1)
    return _draw(face(name, size * SCALE), char, phase, SCALE)


def _draw(font: ImageFont.FreeTypeFont, char: str, phase: int, scale: int) -> Glyph:
    left, top, right, bottom = (int(v) for v in font.getbbox(char, anchor="ls"))
    x0, y0 = (left + phase) // scale - 1, top // scale - 1
    x1, y1 = (right + phase) // scale + 2, bottom // scale + 2
    canvas = Image.new("L", ((x1 - x0) * scale, (y1 - y0) * scale))
    ImageDraw.Draw(canvas).text((phase - x0 * scale, -y0 * scale), char, font=font, fill=255, anchor="ls")
    small = canvas.reduce(scale) if scale > 1 else canvas
    return np.asarray(small, dtype=np.float32) / 255, x0, y0
