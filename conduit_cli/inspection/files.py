"""Files that `conduit inspect` writes: refused before any work if they can't be, and never half-written."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from conduit_cli.errors import UsageError

__all__ = ["check_file", "check_folder", "replacing"]


def check_file(path: Path, sources: Sequence[Path] = ()) -> None:
    """Refuse a file that can't be written, or that is one of the documents asked about.

    Raises:
        UsageError: it is.
    """
    if path.name in ("", "-"):
        raise UsageError("the HTML needs a file of its own", "name one, such as --html inspect.html")
    try:
        there = stat.S_IFMT(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        there = None
    except OSError as error:  # too long a name, a loop of links
        raise UsageError(f"{path} can't be written: {error.strerror}", "name another file") from error
    if there not in (None, stat.S_IFREG):
        raise UsageError(f"{path} is not a file that can be replaced", "name a file, such as inspect.html")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}, where {path.name} should go, is not a folder", f"mkdir -p {path.parent}")
    for source in sources:
        with suppress(OSError):
            if there is not None and path.samefile(source):
                raise UsageError(f"{path} is the document itself and would be replaced", "name another file")
    _probe(path.resolve().parent, path)


def check_folder(path: Path) -> None:
    """Make a folder if there is none, and refuse one that can't be written to.

    Raises:
        UsageError: it can't be.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder {path} can't be made: {error.strerror}", "name another folder") from error
    _probe(path, path)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes `path`'s place once it is whole; on any error nothing is left of it."""
    target = path.resolve()
    handle, name = tempfile.mkstemp(prefix=".conduit-", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _probe(folder: Path, target: Path) -> None:
    try:
        handle, name = tempfile.mkstemp(prefix=".conduit-", suffix=".part", dir=folder.resolve())
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        raise UsageError(f"{target} can't be written: {error.strerror}", "name another place") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
