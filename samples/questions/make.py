"""Write the question sets: ``python -m samples.questions.make --out DIR [--each 300] [--only SET]``.

Makes DIR/<set>.jsonl and one small PDF per question in DIR/<set>/; then, for each set,
``conduit bench DIR/<set>.jsonl``. The same command makes the same files.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pymupdf

from samples.mini.page import Page, Run
from samples.questions.sets import SETS, draw_set

__all__ = ["make", "write_pdf"]

POINTS = 1.5  # per pixel of the size at which the bundled model sees a page


def make(folder: Path, name: str, count: int) -> Path:
    """Write one set; the path of its questions."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, drawn in enumerate(draw_set(name, count), 1):
            document = f"{name}/{number:04d}.pdf"
            write_pdf(drawn.task.pages, folder / document)
            file.write(json.dumps(drawn.record(document, number)) + "\n")
    return path


def write_pdf(pages: list[Page], path: Path) -> None:
    """Pages as vectors in base-14 fonts."""
    document = pymupdf.open()
    for page in pages:
        sheet = document.new_page(width=page.width * POINTS, height=page.height * POINTS)
        for run in page.runs:
            _write(sheet, run, every_letter=page.hinted)
        for x0, x1, y in page.rules:
            sheet.draw_line((x0 * POINTS, y * POINTS), (x1 * POINTS, y * POINTS))
    document.set_metadata({})
    document.save(path, garbage=4, deflate=True, no_new_id=True)
    document.close()


def _write(sheet: pymupdf.Page, run: Run, *, every_letter: bool) -> None:
    """One run; letter by letter where the page has whole-pixel pens."""
    pieces = zip(run.pens, run.text, strict=True) if every_letter else [(run.pens[0], run.text)]
    for pen, text in pieces:
        sheet.insert_text((pen * POINTS, run.baseline * POINTS), text, fontsize=run.size * POINTS, fontname=run.font)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--each", type=int, default=300)
    parser.add_argument("--only", choices=list(SETS))
    given = parser.parse_args()
    for name in [given.only] if given.only else SETS:
        print(make(given.out, name, given.each))


if __name__ == "__main__":
    main()
