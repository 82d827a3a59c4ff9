"""One sentence and one hint for everything that can be wrong with a file."""

from __future__ import annotations

import os

from conduit_cli.documents._errors import (
    DocumentDamaged,
    DocumentLocked,
    DocumentTooLarge,
    DocumentUnsupported,
)
from conduit_cli.documents._wire import Refusal, speakable
from conduit_cli.errors import InputError

__all__ = ["display_name", "open_failed", "page_failed"]

_RESAVE = "Open it in a viewer and save or print it to a new PDF, then try that one."
_REEXPORT = "Open it in an image editor and save it again, or fetch it anew."
_SMALLER = "Scale it down first, for example with: magick FILE -resize 4000x4000 small.png"
_HEIF = "Install a decoder with: pip install pillow-heif; or convert the picture to JPEG."


def display_name(path: os.PathLike[str] | str) -> str:
    """A file's name, safe to print."""
    return speakable(os.path.basename(os.fspath(path)) or os.fspath(path)) or "(unnamed)"


def open_failed(path: os.PathLike[str], reader: str, label: str, refusal: Refusal) -> InputError:
    """The error for a file that could not be opened."""
    name, code, detail = speakable(path, 300), refusal.code, _because(refusal)
    again = _RESAVE if reader == "pdf" else _REEXPORT
    if code == "locked":
        return DocumentLocked(f"{name} is locked with a password.", "Give it with --password-file FILE.")
    if code == "password":
        return DocumentLocked(
            f"The password does not open {name}.", "Check the first line of the password file.", tried=True
        )
    if code == "empty":
        return DocumentDamaged(f"{name} is {label} with no pages.", again)
    if code == "format":
        hint = _HEIF if reader == "HEIF" else "Convert it to PNG or JPEG first."
        return DocumentUnsupported(f"{name} is {label}, for which no decoder is installed.", hint)
    if code == "pixels":
        return DocumentTooLarge(f"{name} is too large to decode: {refusal.detail} pixels.", _SMALLER)
    if code in ("memory", "late"):
        why = "more memory" if code == "memory" else "more time"
        return DocumentTooLarge(f"{name} takes {why} to open than is allowed.", again)
    return DocumentDamaged(f"{name} is {label} that is damaged beyond reading{detail}.", again)


def page_failed(name: str, number: int, kind: str, refusal: Refusal) -> tuple[str, str]:
    """Message and hint for a page that could not be rendered."""
    what = f"Page {number} of {name}"
    again = _RESAVE if kind == "pdf" else _REEXPORT
    if refusal.code == "pixels":
        return f"{what} is too large to decode: {refusal.detail} pixels.", _SMALLER
    if refusal.code == "memory":
        return f"{what} takes more memory to draw than is allowed.", again
    if refusal.code == "late":
        return f"{what} takes more time to draw than is allowed.", again
    if refusal.code == "died":
        return f"{what} crashed the renderer.", again
    return f"{what} can't be drawn{_because(refusal)}.", again


def _because(refusal: Refusal) -> str:
    detail = refusal.detail.rstrip(". ")
    return f": {detail}" if detail else ""
