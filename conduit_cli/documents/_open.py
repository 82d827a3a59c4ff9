"""Opening a file: what it is, whether it can be read, how many pages it has."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import BinaryIO

from conduit_cli.documents import _sentences
from conduit_cli.documents._client import Renderer
from conduit_cli.documents._document import Document, file_stamp
from conduit_cli.documents._errors import DocumentDamaged, DocumentMissing, DocumentUnsupported
from conduit_cli.documents._limits import Limits
from conduit_cli.documents._sniff import HEAD_BYTES, sniff
from conduit_cli.documents._wire import Refusal, speakable

__all__ = ["open_document"]

_CHUNK = 1 << 20


def open_document(
    path: str | os.PathLike[str], *, password: str | None = None, limits: Limits | None = None
) -> Document:
    """Open a PDF or a picture, recognised by its bytes; use as a context manager.

    Raises DocumentMissing, DocumentUnsupported, DocumentDamaged, DocumentLocked or DocumentTooLarge,
    each an InputError with one sentence and a hint.
    """
    path = Path(path)
    limits = limits or Limits()
    with _open_file(path) as file:
        stamp = file_stamp(os.fstat(file.fileno()))
        kind = sniff(file.read(HEAD_BYTES))
        if kind.reader is None:
            raise DocumentUnsupported(f"{speakable(path, 300)} is {kind.label}.", kind.hint)
        digest = _digest(file)
    renderer = Renderer(os.path.abspath(path), kind.reader, password, limits)
    try:
        opened = renderer.open()
    except Refusal as refusal:
        renderer.close()
        raise _sentences.open_failed(path, kind.reader, kind.label, refusal) from refusal
    return Document(
        path,
        digest=digest,
        kind="pdf" if kind.reader == "pdf" else "image",
        stamp=stamp,
        renderer=renderer,
        page_count=opened["pages"],
        notes=tuple(opened["notes"]),
    )


def _open_file(path: Path) -> BinaryIO:
    """The file, open for reading; a regular file with at least one byte."""
    name = speakable(path, 300)
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise DocumentMissing(f"{name} is a directory.", f"Name its files, for example: {name.rstrip('/')}/*.pdf")
        if not stat.S_ISREG(status.st_mode):
            raise DocumentMissing(f"{name} is not a regular file.", "Save it to a file first.")
        if status.st_size == 0:
            raise DocumentDamaged(f"{name} is empty (0 bytes).", "Fetch or export it again.")
        return open(path, "rb")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DocumentMissing(f"{name} does not exist.", "Check the path.") from error
    except PermissionError as error:
        raise DocumentMissing(f"{name} may not be read by you.", f"Check its rights with: ls -l {name}") from error
    except (OSError, ValueError) as error:
        reason = speakable(getattr(error, "strerror", None) or error)
        raise DocumentMissing(f"{name} can't be read: {reason}.", "Check the path.") from error


def _digest(file: BinaryIO) -> str:
    file.seek(0)
    state = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        state.update(chunk)
    return state.hexdigest()
