"""One PNG per page: the page, the score as a translucent layer, refreshed cells outlined, scale and caption.

The page's own pixels begin at the picture's upper left corner, under its finest grid (`geometry`). Other grids, such
as the overview that a model reads besides tiles, are drawn on a smaller copy to the right; all else stands below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from conduit_cli.inspection.files import replacing
from conduit_cli.inspection.fonts import font, wrapped
from conduit_cli.inspection.geometry import Cells, TokenGrid, edges, on_cells
from conduit_cli.inspection.heat import COLOURS, OUTLINE, RGB, Scale, scale_of
from conduit_cli.inspection.model import Inspection, Layer, PageView
from conduit_cli.inspection.wording import LAYER_TITLES, grid_lines, how, number, page_line

__all__ = ["LONGEST", "file_name", "page_png", "write_pngs"]

LONGEST = 1600
"""Pixels of the longer side that a page is drawn at, about."""

_ALPHA = (0.10, 0.62)  # of the heat layer, at the scale's low and high end
_INK: RGB = (32, 33, 36)
_GREY: RGB = (95, 99, 104)
_NARROWEST = 900
_PAD = 24
_NAME = 40  # pixels of height that the name of a smaller picture takes


def file_name(index: int, page: PageView) -> str:
    """`02-report-page-2.png`: safe on every file system, and in prompt order; `index` counts from 0."""
    stem = re.sub(r"[^\w.-]+", "_", page.share.document.rpartition(".")[0] or page.share.document)[:60]
    return f"{index + 1:02d}-{stem.strip('._') or 'document'}-page-{page.share.page}.png"


def page_png(inspection: Inspection, page: PageView, image: Image.Image) -> Image.Image:
    """A page's picture.

    Args:
        image: the page as rendered; drawn at about `LONGEST` pixels.
    """
    layer = inspection.layer_names[0]
    scale = scale_of(inspection, layer)
    first, *others = (
        _drawn(image, grid, LONGEST // (2 if at else 1), page, page.values(layer) or (), scale)
        for at, grid in enumerate(page.grids)
    )
    named = [(grid.name, drawn) for grid, drawn in zip(page.grids[1:], others, strict=True)]
    return _captioned(_beside(first, named), inspection, page, layer if page.grids[0].tokens else None, scale)


def write_pngs(inspection: Inspection, picture: Callable[[int, int], Image.Image], folder: Path) -> int:
    """Write every page's picture into a folder; how many they are.

    Args:
        picture: draws page `index` (into `inspection.pages`) towards `longest` pixels.
    """
    for index, page in enumerate(inspection.pages):
        drawn = page_png(inspection, page, picture(index, LONGEST))
        with replacing(folder / file_name(index, page)) as file:
            drawn.save(file, "PNG")
    return len(inspection.pages)


def _drawn(
    image: Image.Image, grid: TokenGrid, longest: int, page: PageView, values: Sequence[float], scale: Scale
) -> Image.Image:
    """The page under one of its grids."""
    drawn, cells = on_cells(image, grid, longest)
    drawn = _heated(drawn, cells, [values[token] for token in grid.tokens], scale)
    _outline(drawn, cells, grid.held(page.share.refreshed))
    return drawn


def _heated(image: Image.Image, cells: Cells, values: Sequence[float], scale: Scale) -> Image.Image:
    """The page under one flat colour per cell; black print stays the darkest thing on it."""
    page = np.array(image, dtype=np.float32)
    for cell, value in enumerate(values):
        place = scale.at(value)
        alpha = _ALPHA[0] + (_ALPHA[1] - _ALPHA[0]) * place
        left, top, right, bottom = cells.box(cell)
        block = page[top:bottom, left:right]
        block += alpha * (np.array(COLOURS[round(place * 255)], dtype=np.float32) - block)
    return Image.fromarray(page.round().astype(np.uint8))


def _outline(image: Image.Image, cells: Cells, chosen: Sequence[int]) -> None:
    """Blue around the set, in a white seam so that it shows on dark pages too; thin lines between its cells."""
    draw = ImageDraw.Draw(image)
    sides = (max((end - start for start, end in spans), default=0) for spans in (cells.rows, cells.columns))
    broad = max(2, min(sides) // 16)
    outer, inner = edges(chosen, cells)
    for lines, width, colour in ((outer, broad + 2, (255, 255, 255)), (inner, 1, OUTLINE), (outer, broad, OUTLINE)):
        before, after = width // 2, (width - 1) // 2
        for x0, y0, x1, y1 in lines:
            draw.rectangle((x0 - before, y0 - before, x1 + after, y1 + after), fill=colour)


def _beside(first: Image.Image, others: Sequence[tuple[str, Image.Image]]) -> Image.Image:
    """The large picture, and smaller ones to its right, each under its name."""
    if not others:
        return first
    face = font(21)
    width = max(drawn.width for _, drawn in others)
    height = sum(drawn.height + _NAME for _, drawn in others)
    canvas = Image.new("RGB", (first.width + _PAD + width, max(first.height, height)), "white")
    canvas.paste(first, (0, 0))
    x, y = first.width + _PAD, 0
    for name, drawn in others:
        ImageDraw.Draw(canvas).text((x, y + _NAME // 2), name, font=face, fill=_INK, anchor="lm")
        canvas.paste(drawn, (x, y + _NAME))
        y += _NAME + drawn.height
    return canvas


def _captioned(
    page_image: Image.Image, inspection: Inspection, page: PageView, layer: Layer | None, scale: Scale
) -> Image.Image:
    """The page on white, with its caption and the scale of its colours underneath."""
    width = max(page_image.width, _NARROWEST)
    large, small = font(26, bold=True), font(21)
    inner = width - 2 * _PAD
    lines = [(line, large, _INK) for line in wrapped(inspection.answer.question, large, inner, 3)]
    details = f"{page.title}  ·  {page_line(page)}"
    lines += [(line, small, _INK) for line in wrapped(details, small, inner, 2)]
    method = how(inspection.answer)
    if page.mean_attention is not None:
        method += f"  ·  mean attention g {number(page.mean_attention)}"
    if page.share.coefficient is not None:
        method += f"  ·  coefficient c {number(page.share.coefficient)}"
    parts = "  ·  ".join(grid_lines(page))
    lines += [(line, small, _INK) for line in wrapped(parts, small, inner, 3)]
    lines += [(line, small, _GREY) for line in wrapped(method, small, inner, 3)]
    caption = _PAD + 34 * len(lines) + (86 if layer else _PAD)
    canvas = Image.new("RGB", (width, page_image.height + caption), "white")
    canvas.paste(page_image, (0, 0))
    draw = ImageDraw.Draw(canvas)
    y = page_image.height
    draw.line((0, y, width, y), fill=(218, 220, 224), width=2)
    y += _PAD - 4
    for text, face, colour in lines:
        draw.text((_PAD, y), text, font=face, fill=colour)
        y += 34
    if layer:
        _legend(canvas, y + 8, layer, scale)
    return canvas


def _legend(canvas: Image.Image, top: int, layer: Layer, scale: Scale) -> None:
    """A bar of the colours as they look on paper, with ticks, and the outline's sign."""
    draw, face = ImageDraw.Draw(canvas), font(18)
    left, length, height = _PAD, 420, 18
    for x in range(length):
        place = x / (length - 1)
        alpha = _ALPHA[0] + (_ALPHA[1] - _ALPHA[0]) * place
        red, green, blue = (round(255 * (1 - alpha) + c * alpha) for c in COLOURS[round(place * 255)])
        draw.line((left + x, top, left + x, top + height), fill=(red, green, blue))
    draw.rectangle((left, top, left + length, top + height), outline=_GREY)
    for tick in (0.0, 0.5, 1.0):
        x = left + round(tick * length)
        draw.line((x, top + height, x, top + height + 5), fill=_GREY)
        anchor = {0.0: "la", 1.0: "ra"}.get(tick, "ma")
        label = ("≥ " if tick == 1 and scale.cut else "") + number(scale.number(tick))
        draw.text((x, top + height + 7), label, font=face, fill=_GREY, anchor=anchor)
    x = left + length + 24
    draw.text((x, top + height // 2), LAYER_TITLES[layer], font=face, fill=_INK, anchor="lm")
    y = top + height + 18
    draw.rectangle((x + 1, y - 8, x + 17, y + 8), outline=OUTLINE, width=3)
    draw.text((x + 26, y), "refreshed for this question", font=face, fill=_INK, anchor="lm")
