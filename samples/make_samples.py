"""Draws the sample documents and their questions; the same files each time.

    python samples/make_samples.py

Large print on small pages: the bundled model reads pages of 336x224 pixels in cells of 28, so a line
holds about 20 characters and a page about 5 lines. Pages are 504x336 points: 1.5 points a pixel.
Every name and number is made up.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pymupdf
from PIL import Image, ImageDraw, ImageFilter, ImageFont

HERE = Path(__file__).parent
WIDTH, HEIGHT, UNIT = 504, 336, 1.5
SIZE, PITCH = 24, 38  # pixels at 336 px page width

Row = tuple[str, ...]
Page = tuple[str, list[Row]]

REPORT: list[Page] = [
    ("Annual report 2025", [("Author: ", "Larsen"), ("Region: ", "Nordic"), ("Date: ", "12 Jan 2026")]),
    ("Oslo summary", [("Revenue: ", "4820"), ("Profit: ", "615"), ("Manager: ", "Moreau")]),
    (
        "Sales ledger",
        [("City", "Q1", "Q2"), ("Oslo", "412", "538"), ("Paris", "97", "264"), ("Turin", "350", "71")],
    ),
    ("Lisbon summary", [("Revenue: ", "2975"), ("Profit: ", "184"), ("Manager: ", "Okafor")]),
    ("Energy review", [("Output: ", "73.5%"), ("Power: ", "880"), ("Site: ", "Vienna")]),
    ("Budget plan", [("Total: ", "$9140"), ("Target: ", "5260"), ("Status: ", "open")]),
]
INVOICE: list[Page] = [
    (
        "Invoice 7316",
        [("Customer: ", "Novak Ltd"), ("Due date: ", "2026-03-14"), ("Tax: ", "$86"), ("Total: ", "$518")],
    ),
]
DASHBOARD = ("Traffic", [("North", "640", 640), ("South", "215", 215), ("West", "430", 430)])
SCAN: Page = ("Delivery note", [("Order no: ", "DK-482"), ("Weight: ", "36.5"), ("Driver: ", "Haas")])

QUESTIONS: list[tuple[str, int, str, str]] = [
    ("report.pdf", 1, "What is the author?", "Larsen"),
    ("report.pdf", 1, "What is the date?", "12 Jan 2026"),
    ("report.pdf", 2, "What is the revenue on page 2?", "4820"),
    ("report.pdf", 2, "What is the profit in Oslo summary?", "615"),
    ("report.pdf", 2, "What is the manager on page 2?", "Moreau"),
    ("report.pdf", 3, "What is Q2 for Oslo?", "538"),
    ("report.pdf", 3, "What is Q1 for Turin?", "350"),
    ("report.pdf", 4, "What is the revenue on page 4?", "2975"),
    ("report.pdf", 4, "What is the manager in Lisbon summary?", "Okafor"),
    ("report.pdf", 5, "What is the output?", "73.5%"),
    ("report.pdf", 5, "What is the site?", "Vienna"),
    ("report.pdf", 6, "What is the total?", "$9140"),
    ("report.pdf", 6, "What is the status?", "open"),
    ("invoice.pdf", 1, "What is the total?", "$518"),
    ("invoice.pdf", 1, "What is the tax?", "$86"),
    ("invoice.pdf", 1, "What is the customer?", "Novak Ltd"),
    ("invoice.pdf", 1, "What is the due date?", "2026-03-14"),
    ("dashboard.png", 1, "What is the north?", "640"),
    ("dashboard.png", 1, "What is the south?", "215"),
    ("scan.png", 1, "What is the order no?", "DK-482"),
    ("scan.png", 1, "What is the weight?", "36.5"),
]


def write_pdf(path: Path, pages: list[Page], fonts: list[tuple[str, str]]) -> None:
    """Write vector pages; `fonts` are (regular, bold) base-14 names, cycled page by page."""
    document = pymupdf.open()
    for number, (title, rows) in enumerate(pages):
        regular, bold = fonts[number % len(fonts)]
        page = document.new_page(width=WIDTH, height=HEIGHT)
        for x, y, text, heavy in layout(title, rows):
            page.insert_text((x * UNIT, y * UNIT), text, fontname=bold if heavy else regular, fontsize=SIZE * UNIT)
        if len(rows[0]) > 2:
            page.draw_line((16 * UNIT, 84 * UNIT), (320 * UNIT, 84 * UNIT))
    document.set_metadata({})
    document.save(path, garbage=4, deflate=True, no_new_id=True)


def layout(title: str, rows: list[Row]) -> Iterator[tuple[float, float, str, bool]]:
    """Every piece of text with its baseline in pixels, and whether it is bold."""
    y = 38.0
    yield 16, y, title, True
    for row in rows:
        y += PITCH
        if len(row) == 2:
            yield 16, y, row[0] + row[1], False
            continue
        for column, text in enumerate(row):
            yield (16, 140, 235)[column], y, text, row is rows[0]


def font(name: str, size: int) -> ImageFont.FreeTypeFont:
    """A base-14 font at a pixel size."""
    return ImageFont.truetype(io.BytesIO(pymupdf.Font(name).buffer), size)


def draw_dashboard() -> Image.Image:
    """A screenshot-like panel: a title bar and three labelled bars with their values."""
    title, bars = DASHBOARD
    image = Image.new("RGB", (672, 448), (250, 250, 252))
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 0, 672, 88), fill=(222, 232, 246))
    pen.text((28, 18), title, font=font("hebo", 2 * SIZE), fill=(20, 30, 60))
    for index, (label, value, length) in enumerate(bars):
        y = 118 + index * 108
        pen.text((28, y), f"{label}: {value}", font=font("helv", 2 * SIZE), fill=(25, 25, 30))
        pen.rectangle((28, y + 62, 28 + length * 0.9, y + 80), fill=(70, 120, 190))
    return image


def draw_scan() -> Image.Image:
    """A page as a scanner sees it: turned by half a degree, grey, noisy."""
    title, rows = SCAN
    image = Image.new("L", (2 * 336, 2 * 224), 246)
    pen = ImageDraw.Draw(image)
    for x, y, text, heavy in layout(title, rows):
        face = font("tibo" if heavy else "tiro", 2 * SIZE)
        pen.text((2 * x, 2 * y), text, font=face, fill=45, anchor="ls")
    image = image.rotate(0.5, Image.Resampling.BICUBIC, fillcolor=246).filter(ImageFilter.GaussianBlur(0.8))
    noise = random.Random(7)
    pixels = bytes(max(0, min(255, value + round(noise.gauss(0, 5)))) for value in image.tobytes())
    return Image.frombytes("L", image.size, pixels)


def write_questions(path: Path) -> None:
    """One JSON object a line: document, question, answer, page."""
    with path.open("w", encoding="utf-8") as file:
        for document, page, question, answer in QUESTIONS:
            record = {"document": document, "question": question, "answer": answer, "page": page}
            file.write(json.dumps(record) + "\n")


def main() -> None:
    """Write everything beside this script."""
    write_pdf(HERE / "report.pdf", REPORT, [("helv", "hebo"), ("tiro", "tibo"), ("helv", "hebo")])
    write_pdf(HERE / "invoice.pdf", INVOICE, [("helv", "hebo")])
    small = (336, 224)  # drawn at twice the size, for smooth print
    draw_dashboard().resize(small, Image.Resampling.LANCZOS).save(HERE / "dashboard.png", optimize=True)
    draw_scan().resize(small, Image.Resampling.LANCZOS).save(HERE / "scan.png", optimize=True)
    write_questions(HERE / "questions.jsonl")


if __name__ == "__main__":
    main()
