"""Documents: a PDF or a picture becomes numbered RGB pages.

Everything that parses a user's bytes (MuPDF, Pillow) runs in a child process with a time and a
memory limit, so a hostile or broken file costs a page, never the program. This package imports
neither torch nor transformers, and its exports load on first use: the child is a member of the
package and must start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conduit_cli.documents._document import RENDERER, Document, Fit, Page
    from conduit_cli.documents._errors import (
        DocumentChanged,
        DocumentDamaged,
        DocumentLocked,
        DocumentMissing,
        DocumentTooLarge,
        DocumentUnsupported,
        PageError,
    )
    from conduit_cli.documents._limits import Limits
    from conduit_cli.documents._numbers import format_pages, parse_pages
    from conduit_cli.documents._open import open_document
    from conduit_cli.documents._password import read_password

__all__ = [
    "RENDERER",
    "Document",
    "DocumentChanged",
    "DocumentDamaged",
    "DocumentLocked",
    "DocumentMissing",
    "DocumentTooLarge",
    "DocumentUnsupported",
    "Fit",
    "Limits",
    "Page",
    "PageError",
    "format_pages",
    "open_document",
    "parse_pages",
    "read_password",
]

_HOMES = {
    "_document": ("RENDERER", "Document", "Fit", "Page"),
    "_errors": (*(name for name in __all__ if name.startswith("Document") and name != "Document"), "PageError"),
    "_limits": ("Limits",),
    "_numbers": ("format_pages", "parse_pages"),
    "_open": ("open_document",),
    "_password": ("read_password",),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
