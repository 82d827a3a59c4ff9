"""PDF pages to pixels with MuPDF. Runs in the rendering child only."""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import Any

from conduit_cli.documents._wire import Refusal, speakable

# PyMuPDF 2 imports its layout models (ONNX, half a second, 40 MB) unless they are absent.
sys.modules.setdefault("pymupdf.layout", None)  # type: ignore[arg-type]
sys.modules.setdefault("pymupdf4llm", None)  # type: ignore[arg-type]

import pymupdf  # noqa: E402
from pymupdf import mupdf  # noqa: E402

__all__ = ["PdfReader"]

_TELLING = re.compile(r"error|cannot|can't|invalid|broken|ignor|damag|trunc|unexpected|too |fail", re.IGNORECASE)
_MAX_WARNINGS = 2
# MuPDF caps its cache of fonts and pictures at 256 MiB and can't tell its size (2.0): emptied now and
# then it stays small, emptied after each page it costs 25 ms of font loading.
_PAGES_PER_CACHE = 16


class PdfReader:
    """One open PDF.

    Raises Refusal: `locked`, `password`, `empty` (no pages) or `damaged`.
    """

    def __init__(self, path: str, password: str | None) -> None:
        pymupdf.TOOLS.mupdf_display_errors(False)
        pymupdf.TOOLS.mupdf_display_warnings(False)
        self._document = _open(path)
        # page_count read before authenticate() would stay 0 for good
        if self._document.needs_pass:
            self._unlock(password)
        try:
            self.pages = int(self._document.page_count)
        except Exception as error:
            raise Refusal("damaged", str(error)) from error
        if self.pages < 1:
            raise Refusal("empty")
        self.notes: list[str] = []
        if self._document.is_repaired:
            self.notes.append("the PDF's internal index was damaged and has been rebuilt")
        self._loaded: tuple[int, Any] | None = None
        self._drawn = 0

    def _unlock(self, password: str | None) -> None:
        if password is None:
            raise Refusal("locked")
        for form in dict.fromkeys((password, *(unicodedata.normalize(f, password) for f in ("NFC", "NFD", "NFKC")))):
            try:
                if self._document.authenticate(form):
                    return
            except TypeError:  # lone surrogates: not text that MuPDF can take
                continue
        raise Refusal("password")

    def size(self, number: int) -> tuple[float, float]:
        """Width and height in points, as shown: cropped and rotated."""
        bounds = mupdf.fz_bound_page(self._page(number))
        return bounds.x1 - bounds.x0, bounds.y1 - bounds.y0

    def render(self, number: int, width: int, height: int) -> tuple[int, int, memoryview, list[str]]:
        """The page with its annotations and form fields, scaled to exactly `width` x `height`."""
        page = self._page(number)
        bounds = mupdf.fz_bound_page(page)
        scale = mupdf.FzMatrix(width / (bounds.x1 - bounds.x0), 0, 0, height / (bounds.y1 - bounds.y0), 0, 0)
        matrix = mupdf.fz_concat(mupdf.fz_translate(-bounds.x0, -bounds.y0), scale)
        pixmap = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, width, height), False)
        pixmap.clear_with(255)
        device = mupdf.fz_new_draw_device(matrix, pixmap.this)
        mupdf.fz_run_page(page, device, mupdf.FzMatrix(), mupdf.FzCookie())
        mupdf.fz_close_device(device)
        notes = _warnings()
        self._drawn += 1
        if self._drawn % _PAGES_PER_CACHE == 0:
            pymupdf.TOOLS.store_shrink(100)
        return width, height, memoryview(bytes(pixmap.samples)), notes

    def _page(self, number: int) -> Any:
        """The page, kept between `size` and `render` of the same number."""
        if self._loaded is None or self._loaded[0] != number:
            self._loaded = None
            pymupdf.TOOLS.reset_mupdf_warnings()
            page = mupdf.fz_load_page(self._document.this, number)
            self._loaded = (number, page)
        return self._loaded[1]


def _open(path: str) -> Any:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:  # a file name that is no text: MuPDF can't take it
        with open(path, "rb") as file:
            return pymupdf.open(stream=file.read(), filetype="pdf")
    try:
        return pymupdf.open(path, filetype="pdf")
    except Exception as error:
        raise Refusal("damaged", str(error.__cause__ or error)) from error


def _warnings() -> list[str]:
    """What MuPDF complained of since the page was loaded and a reader of the page should know."""
    lines = str(pymupdf.TOOLS.mupdf_warnings()).splitlines()
    telling = list(dict.fromkeys(speakable(line) for line in lines if _TELLING.search(line)))
    notes = [f"MuPDF: {line}" for line in telling[:_MAX_WARNINGS]]
    if len(telling) > _MAX_WARNINGS:
        notes.append(f"MuPDF: {len(telling) - _MAX_WARNINGS} more warnings")
    return notes
