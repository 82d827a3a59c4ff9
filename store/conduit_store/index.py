"""The index: small JSON values in LMDB, one environment per store and process.

LMDB's locks belong to the process, so opening an environment twice would break them: handles on the same
folder share one, counted. A forked child closes what it inherited and opens its own on first use.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from conduit_store.errors import StoreDamaged, StoreError, StoreLockless, StoreUnavailable
from conduit_store.identity import canonical_json

__all__ = ["Index", "Table", "Tables"]

MAP_SIZE = 1 << 24
_MAX_READERS = 1024
_TABLES = ("entries", "used", "memo", "labels")
_BROKEN = (lmdb.InvalidError, lmdb.CorruptedError, lmdb.VersionMismatchError, lmdb.PageNotFoundError)
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
T = TypeVar("T")


class Table:
    """One named table inside a transaction: string keys, JSON values."""

    def __init__(self, txn: Any, db: Any) -> None:
        self._txn, self._db = txn, db

    def __len__(self) -> int:
        return int(self._txn.stat(self._db)["entries"])

    def get(self, key: str) -> Any:
        """The value, or None (also for a value that is no JSON any more)."""
        raw = self._txn.get(key.encode(), db=self._db)
        return None if raw is None else _parse(raw)

    def put(self, key: str, value: Any) -> None:
        """Set a value."""
        self._txn.put(key.encode(), canonical_json(value).encode(), db=self._db)

    def delete(self, key: str) -> None:
        """Remove a key, if it is there."""
        self._txn.delete(key.encode(), db=self._db)

    def items(self) -> Iterator[tuple[str, Any]]:
        """All readable pairs, in key order."""
        for key, raw in self._txn.cursor(db=self._db):
            value = _parse(raw)
            if value is not None:
                yield bytes(key).decode("ascii", "replace"), value


Tables = dict[str, Table]


def _parse(raw: Any) -> Any:
    try:
        return json.loads(bytes(raw))
    except ValueError:
        return None


class _Environment:
    """The process's one environment on a folder."""

    def __init__(self, folder: Path, readonly: bool) -> None:
        self.folder, self.readonly = folder, readonly
        self.users = 0
        self.lock = threading.RLock()
        self._open()

    def _open(self) -> None:
        self.pid = os.getpid()
        if not self.readonly:
            _reserve(self.folder / "lock.mdb")
        try:
            self.env = self._try(lock=True)
        except lmdb.Error:
            if not self.readonly:
                raise
            self.env = self._try(lock=False)  # a read-only disk has no place for a reader's slot
        try:
            self._check_length()
            self.dbs = {name: self._table(name) for name in _TABLES}
            if not self.readonly:
                self.env.reader_check()
        except lmdb.Error:
            self.env.close()
            raise

    def _check_length(self) -> None:
        """LMDB maps its file: reading past the end would kill the process. (It may lack a few free pages.)"""
        pages, size = self.env.info()["last_pgno"] + 1, self.env.stat()["psize"]
        if (self.folder / "data.mdb").stat().st_size < (pages - 8) * size:
            raise lmdb.CorruptedError("the file is cut short")

    def _try(self, *, lock: bool) -> Any:
        return lmdb.open(
            str(self.folder),
            map_size=MAP_SIZE,
            max_dbs=len(_TABLES),
            max_readers=_MAX_READERS,
            readonly=self.readonly,
            create=not self.readonly,
            lock=lock,
        )

    def _table(self, name: str) -> Any:
        return self.env.open_db(name.encode(), create=not self.readonly)

    def current(self) -> Any:
        """The environment, opened anew in a forked child."""
        if self.pid != os.getpid():
            self.env.close()
            self._open()
        return self.env


def _reserve(path: Path) -> None:
    """Give the lock file real blocks: LMDB maps it, and a full disk would otherwise kill the process."""
    size = 64 * (_MAX_READERS + 16)
    with suppress(FileExistsError):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(fd, 0, size)
        except OSError:
            path.unlink()
            raise
        finally:
            os.close(fd)


def _says(error: Exception, *codes: int) -> bool:
    """Whether an error is one of these; LMDB's tell it by their text alone."""
    return getattr(error, "errno", None) in codes or any(os.strerror(code) in str(error) for code in codes)


_shared: dict[tuple[int, int, bool], _Environment] = {}
_guard = threading.Lock()


def _renew_locks() -> None:
    global _guard
    _guard = threading.Lock()
    for environment in _shared.values():
        environment.lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_locks)


class Index:
    """A handle on the index of one store.

    Raises:
        StoreUnavailable: no rights, no locks, no room.
        StoreDamaged: the files are not an LMDB environment any more.
    """

    def __init__(self, folder: Path, *, readonly: bool) -> None:
        self._folder = folder
        try:
            status = folder.stat()
            name = (status.st_dev, status.st_ino, readonly)
            with _guard:
                if name not in _shared:
                    _shared[name] = _Environment(folder, readonly)
                self._environment = _shared[name]
                self._environment.users += 1
        except (lmdb.Error, OSError) as error:
            raise self._translated(error) from error
        self._name = name
        self._closed = False

    def read(self, look: Callable[[Tables], T]) -> T:
        """Run `look` over all tables in one read transaction: a consistent view of this moment."""
        return self._run(look, write=False)

    def write(self, change: Callable[[Tables], T]) -> T:
        """Run `change` in one write transaction; it must bear running again, if the map has to grow.

        Only one write transaction runs at a time, over all processes: it is the store's mutex.

        Raises:
            OSError: with errno ENOSPC if the disk is full.
        """
        return self._run(change, write=True)

    def _run(self, work: Callable[[Tables], T], *, write: bool) -> T:
        if self._closed:
            raise StoreUnavailable(f"the store {self._folder.parent} was closed")
        environment = self._environment
        with environment.lock:
            while True:
                try:
                    env = environment.current()
                    with env.begin(write=write) as txn:
                        return work({name: Table(txn, db) for name, db in environment.dbs.items()})
                except lmdb.MapFullError:
                    env.set_mapsize(env.info()["map_size"] * 2)
                except lmdb.MapResizedError:  # another process has grown the map
                    env.set_mapsize(0)
                except lmdb.Error as error:
                    raise self._translated(error) from error

    def close(self) -> None:
        """Let go of the environment; the process's last handle closes it."""
        with _guard:
            if self._closed:
                return
            self._closed = True
            self._environment.users -= 1
            if self._environment.users == 0:
                _shared.pop(self._name, None)
                self._environment.env.close()

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, _BROKEN):
            return StoreDamaged(
                f"the index of the store {self._folder.parent} is damaged", "conduit cache verify --fix"
            )
        if _says(error, errno.ENOSPC, errno.EDQUOT) or isinstance(error, lmdb.DiskError):
            return OSError(errno.ENOSPC, "no space left for the store's index")
        if _says(error, *_NO_LOCKS) or isinstance(error, lmdb.LockError):
            return StoreLockless(self._folder.parent)
        if isinstance(error, StoreError):
            return error
        return StoreUnavailable(
            f"the store {self._folder.parent} can't be opened: {error}",
            "check its rights, or choose another folder with --store DIR or CONDUIT_STORE",
        )
