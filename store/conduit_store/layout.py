"""Folders and files of a store, and the lock files that tell the living from the dead.

Temporary files and pins are held with `flock`: the kernel drops the lock when the process dies, however
it dies, so nobody has to guess from a process number whether a file's owner still runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from contextlib import suppress
from pathlib import Path

from conduit_store.errors import StoreUnavailable

__all__ = ["Layout", "create_locked", "is_abandoned", "release", "sync_folder"]

_MARKER = "conduit-store.json"
_LAYOUT_VERSION = 1
_FOLDERS = ("index", "objects", "tmp", "pins", "quarantine")
_held: set[int] = set()


class Layout:
    """Where things lie below a store's root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.index, self.objects, self.tmp, self.pins, self.quarantine = (root / name for name in _FOLDERS)

    def make(self) -> None:
        """Create what is missing. The folders are private: they hold the content of documents.

        Raises:
            StoreUnavailable: the folder holds something else, or a newer store.
            OSError: it can't be written.
        """
        if self.root.exists() and not self.root.is_dir():
            raise StoreUnavailable(f"{self.root} is a file, not a folder", "name a folder with --store DIR")
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.check()
        for name in _FOLDERS:
            (self.root / name).mkdir(exist_ok=True, mode=0o700)
        if not (self.root / _MARKER).exists():
            scratch = self.tmp / f"{uuid.uuid4().hex}.marker"
            scratch.write_text(json.dumps({"conduit_store": _LAYOUT_VERSION}) + "\n")
            os.replace(scratch, self.root / _MARKER)

    def check(self) -> None:
        """Refuse a folder that is no store of ours, before anything in it is touched."""
        try:
            version = json.loads((self.root / _MARKER).read_text())["conduit_store"]
        except FileNotFoundError:
            foreign = [path.name for path in self.root.iterdir() if path.name not in _FOLDERS]
            if foreign:
                raise StoreUnavailable(
                    f"{self.root} is not a store: it holds {foreign[0]}",
                    "name an empty folder with --store DIR",
                ) from None
            return
        except (ValueError, KeyError, TypeError):
            return  # the marker alone is damaged; entries check themselves
        if version != _LAYOUT_VERSION:
            raise StoreUnavailable(
                f"{self.root} was made by another version of Conduit (layout {version})",
                "update Conduit, or name another folder with --store DIR",
            )

    def object(self, key: str) -> Path:
        """The file of an entry."""
        return self.objects / key[:2] / f"{key}.safetensors"

    def sizes(self) -> dict[str, int]:
        """What is really on disk: file size by key."""
        found = {}
        for path in self.objects.glob("??/*.safetensors"):
            with suppress(FileNotFoundError):
                found[path.stem] = path.stat().st_size
        return found

    def size_of(self, key: str) -> int | None:
        """Size of an entry's file, or None if it is not there."""
        try:
            return self.object(key).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None


def create_locked(folder: Path, suffix: str) -> tuple[int, Path]:
    """A new file under a name that nobody else uses, locked for as long as this process lives."""
    while True:
        path = folder / f"{uuid.uuid4().hex}{suffix}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.fstat(fd).st_nlink:
                _held.add(fd)
                return fd, path
        except OSError:
            os.close(fd)
            path.unlink(missing_ok=True)
            raise
        os.close(fd)  # collected as abandoned between its creation and its lock


def release(fd: int, path: Path) -> None:
    """Let go of a file from `create_locked` and remove it, unless it was renamed."""
    if fd in _held:
        _held.discard(fd)
        os.close(fd)
        path.unlink(missing_ok=True)


def is_abandoned(path: Path) -> bool:
    """Whether nobody holds the lock of this file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Flush a folder's names to the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _drop_inherited() -> None:
    """A forked child must not keep its parent's locks alive after the parent's death."""
    for fd in _held:
        with suppress(OSError):
            os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_drop_inherited)
