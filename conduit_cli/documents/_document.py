"""An open document and its rendered pages."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Literal

from PIL import Image

from conduit_cli.documents import _sentences, _shape
from conduit_cli.documents._client import Renderer
from conduit_cli.documents._errors import DocumentChanged, PageError
from conduit_cli.documents._limits import MAX_RENDER_PIXELS
from conduit_cli.documents._wire import Refusal, row_strips

__all__ = ["RENDERER", "Document", "Fit", "Page"]

Fit = Callable[[float, float], tuple[int, int]]
"""Page width and height in points (as shown) to the exact width and height in pixels."""

_REVISION = 1


def _renderer_tag() -> str:
    parts = []
    for package in ("pymupdf", "pillow"):
        try:
            parts.append(f"{package}-{version(package)}")
        except PackageNotFoundError:
            parts.append(f"{package}-unknown")
    return "+".join([f"conduit-{_REVISION}", *parts])


RENDERER = _renderer_tag()
"""What turned bytes into pixels: a memo of pixel digests holds for this tag only."""


@dataclass(frozen=True, slots=True)
class Page:
    """One rendered page.

    Attributes:
        document: the document's display name.
        number: from 1.
        image: RGB pixels.
        digest: sha256 hex over the size and the RGB bytes: the same pixels in two files agree.
        notes: what a reader of the result should know (blank, padded, warnings).
    """

    document: str
    number: int
    image: Image.Image
    digest: str
    notes: tuple[str, ...] = ()


class Document:
    """A PDF or picture file, open for rendering. Made by `open_document`; a context manager.

    Attributes:
        path: as given.
        name: for display: the file's name, printable.
        digest: sha256 hex of the file's bytes.
        kind: `pdf` or `image`.
        page_count: at least 1.
        notes: what a reader should know of the whole file (repaired, first frame only).
    """

    def __init__(
        self,
        path: Path,
        *,
        digest: str,
        kind: Literal["pdf", "image"],
        stamp: tuple[int, ...],
        renderer: Renderer,
        page_count: int,
        notes: tuple[str, ...],
    ) -> None:
        self.path = path
        self.name = _sentences.display_name(path)
        self.digest = digest
        self.kind = kind
        self.page_count = page_count
        self.notes = notes
        self._stamp = stamp
        self._renderer = renderer

    def page_size(self, number: int) -> tuple[float, float]:
        """Width and height of a page as shown: points for a PDF, stored pixels for a picture.

        Raises PageError.
        """
        self._check_number(number)
        try:
            width, height = self._renderer.size(number)
        except Refusal as refusal:
            raise self._page_error(number, refusal) from refusal
        return _shape.padded_size(width, height)

    def render(self, number: int, fit: Fit) -> Page:
        """Draw page `number` (from 1).

        A PDF page comes out at exactly `fit(width, height)` pixels, a picture at its own size.
        Raises PageError if this page fails (the document stays usable), DocumentChanged if the
        file is no longer the one that was opened.
        """
        self._check_number(number)
        try:
            image, notes = self._draw(number, fit)
        except Refusal as refusal:
            raise self._page_error(number, refusal) from refusal
        self._check_unchanged()
        image, padding = _shape.pad(image)
        colour = _shape.solid_colour(image)
        if colour is not None:
            notes = [f"the page came out in one solid colour ({colour})", *notes]
        return Page(self.name, number, image, pixel_digest(image), tuple(dict.fromkeys([*notes, *padding])))

    def close(self) -> None:
        """End the rendering process. Idempotent."""
        self._renderer.close()

    def __enter__(self) -> Document:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _draw(self, number: int, fit: Fit) -> tuple[Image.Image, list[str]]:
        if self.kind == "image":
            reply, strips = self._renderer.render(number, 0, 0)
            return _assemble(reply["width"], reply["height"], strips), reply["notes"]
        page = self._renderer.size(number)
        full = _shape.padded_size(*page)
        width, height = fit(*full)
        if not (width >= 1 and height >= 1 and width * height <= MAX_RENDER_PIXELS):
            raise ValueError(f"fit asked for {width} x {height} pixels")
        inner = max(1, round(width * page[0] / full[0])), max(1, round(height * page[1] / full[1]))
        reply, strips = self._renderer.render(number, *inner)
        image = _assemble(*inner, strips)
        notes: list[str] = reply["notes"]
        if inner != (width, height):
            notes.append(_shape.PADDED)
        return _shape.on_white(image, width, height), notes

    def _check_number(self, number: int) -> None:
        if not 1 <= number <= self.page_count:
            raise ValueError(f"{self.name} has pages 1 to {self.page_count}, not {number}")

    def _check_unchanged(self) -> None:
        try:
            now = file_stamp(os.stat(self.path))
        except OSError:
            now = ()
        if now != self._stamp:
            raise DocumentChanged(f"{self.name} was changed while it was read.", "Run the command again.")

    def _page_error(self, number: int, refusal: Refusal) -> PageError:
        message, hint = _sentences.page_failed(self.name, number, self.kind, refusal)
        return PageError(message, hint, number=number)


def file_stamp(status: os.stat_result) -> tuple[int, ...]:
    """What changes when a file is written to; ctime can't be set back by a program."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def pixel_digest(image: Image.Image) -> str:
    """sha256 hex over width, height and the RGB rows of `image`."""
    state = hashlib.sha256(f"RGB {image.width} {image.height}\n".encode())
    for top, rows in row_strips(image.width, image.height):
        state.update(image.crop((0, top, image.width, top + rows)).tobytes())
    return state.hexdigest()


def _assemble(width: int, height: int, strips: list[bytes]) -> Image.Image:
    image = Image.new("RGB", (width, height))
    for (top, rows), strip in zip(row_strips(width, height), strips, strict=True):
        image.paste(Image.frombytes("RGB", (width, rows), strip), (0, top))
    return image
