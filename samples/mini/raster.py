"""Pixels of a page: a fast glyph compositor for training, and a real PDF page for evaluation."""

from __future__ import annotations

import functools
import random

import numpy as np
import pymupdf
from PIL import Image, ImageFilter

from samples.mini import fonts
from samples.mini.page import Page


def render(page: Page, r: random.Random) -> Image.Image:
    """Draw a page from cached glyphs; some get the look of a scan or of a screenshot."""
    ink = np.zeros((page.height, page.width), dtype=np.float32)
    for run in page.runs:
        for char, pen in zip(run.text, run.pens, strict=True):
            if char != " ":
                _stamp(ink, run.font, run.size, char, pen, run.baseline, page.hinted)
    for x0, x1, y in page.rules:
        ink[y : y + 1 + (y % 2), x0:x1] = 1
    paper, text = r.choice([255, r.randint(235, 255)]), r.choice([0, r.randint(0, 70)])
    shade = paper - ink * (paper - text)
    if r.random() < 0.15:
        return _scan(shade, paper, r)
    return Image.fromarray(shade.clip(0, 255).astype(np.uint8))


def _stamp(ink: np.ndarray, font: str, size: int, char: str, pen: float, baseline: float, hinted: bool) -> None:
    whole = int(pen // 1)
    phase = 0 if hinted else int((pen - whole) * fonts.SCALE)
    shape, dx, dy = fonts.glyph(font, size, char, phase, hinted)
    x, y = whole + dx, int(baseline) + dy
    left, top = max(0, -x), max(0, -y)
    part = ink[max(0, y) : y + shape.shape[0], max(0, x) : x + shape.shape[1]]
    np.maximum(part, shape[top : top + part.shape[0], left : left + part.shape[1]], out=part)


def _scan(shade: np.ndarray, paper: int, r: random.Random) -> Image.Image:
    image = Image.fromarray(shade.clip(0, 255).astype(np.uint8))
    if r.random() < 0.5:
        image = image.rotate(r.uniform(-0.6, 0.6), Image.Resampling.BICUBIC, fillcolor=paper)
    if r.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(r.uniform(0.2, 0.7)))
    noise = np.random.default_rng(r.randrange(1 << 30)).normal(0, r.uniform(1, 8), shade.shape)
    return Image.fromarray((np.asarray(image, dtype=np.float32) + noise).clip(0, 255).astype(np.uint8))


def draw(page: Page, r: random.Random) -> Image.Image:
    """Draw a page for training: three in ten as a PDF page, one as a larger picture scaled down."""
    kind = r.random()
    if kind < 0.3:
        return render_pdf(page)
    if kind < 0.4:
        width, height = page.width, page.height
        scale = r.uniform(1.3, 2.5)
        large = render_pdf(page, (round(width * scale), round(height * scale)))
        return large.resize((width, height), r.choice([Image.Resampling.BICUBIC, Image.Resampling.LANCZOS]))
    return render(page, r)


def render_pdf(page: Page, size: tuple[int, int] | None = None) -> Image.Image:
    """Draw a page as a PDF page and rasterise it with PyMuPDF."""
    document = _document()
    sheet = write_sheet(document, page)
    wide, high = size or (page.width, page.height)
    matrix = pymupdf.Matrix(wide / sheet.rect.width, high / sheet.rect.height)
    pixels = sheet.get_pixmap(matrix=matrix, colorspace=pymupdf.csGRAY)
    document.delete_page(0)
    return Image.frombytes("L", (pixels.width, pixels.height), pixels.samples)


def write_sheet(document: pymupdf.Document, page: Page) -> pymupdf.Page:
    """Add a page to a PDF, in base-14 or embedded fonts, at 1.5 points a pixel."""
    scale = 1.5
    sheet = document.new_page(width=page.width * scale, height=page.height * scale)
    for run in page.runs:
        named = {"fontname": run.font} if "/" not in run.font else {"fontname": _key(run.font), "fontfile": run.font}
        pieces = zip(run.pens, run.text, strict=True) if page.hinted else [(run.pens[0], run.text)]
        for pen, text in pieces:
            sheet.insert_text((pen * scale, run.baseline * scale), text, fontsize=run.size * scale, **named)
    for x0, x1, y in page.rules:
        sheet.draw_line((x0 * scale, y * scale), (x1 * scale, y * scale))
    return sheet


@functools.cache
def _document() -> pymupdf.Document:
    """One document for all pages, so that a font is embedded once."""
    return pymupdf.open()


def _key(path: str) -> str:
    return "F" + "".join(c for c in path if c.isalnum())[-24:]
