"""What can be wrong with a document: all are `InputError` (exit code 3)."""

from __future__ import annotations

from conduit_cli.errors import InputError

__all__ = [
    "DocumentChanged",
    "DocumentDamaged",
    "DocumentLocked",
    "DocumentMissing",
    "DocumentTooLarge",
    "DocumentUnsupported",
    "PageError",
]


class DocumentMissing(InputError):
    """The path leads to no readable file: absent, a directory, a device, no permission."""


class DocumentUnsupported(InputError):
    """The bytes are neither a PDF nor a picture that can be read here."""


class DocumentDamaged(InputError):
    """The file is empty, broken beyond repair, or has no pages."""


class DocumentLocked(InputError):
    """The PDF needs a password, or the given one is wrong.

    Attributes:
        tried: whether a password was given (and did not fit).
    """

    def __init__(self, message: str, hint: str | None = None, *, tried: bool = False) -> None:
        super().__init__(message, hint)
        self.tried = tried


class DocumentTooLarge(InputError):
    """Decoding would take more pixels, memory or time than is allowed."""


class DocumentChanged(InputError):
    """The file was written to while it was open, so its digest no longer holds."""


class PageError(InputError):
    """One page can't be rendered; the others may well be fine, and keep their numbers.

    Attributes:
        number: the page's number, from 1.
    """

    def __init__(self, message: str, hint: str | None = None, *, number: int) -> None:
        super().__init__(message, hint)
        self.number = number
