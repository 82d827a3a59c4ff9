"""An open store: its folder and its index, and the changes to one entry that reading and writing both make."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from conduit_store import room
from conduit_store.errors import StoreError, StoreFull, StoreLockless, StoreReadOnly, StoreUnavailable
from conduit_store.identity import FORMAT, is_key
from conduit_store.index import Index, Tables
from conduit_store.layout import Layout

__all__ = ["FULL", "Handle", "silent", "unavailable"]

T = TypeVar("T")
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)
_FLUSH_SECONDS = 30.0


def silent(_note: str) -> None:
    """Where nobody listens."""


class Handle:
    """What every part of `Store` stands on; its attributes are described there."""

    def __init__(self, layout: Layout, index: Index, *, readonly: bool, verify_on_read: bool) -> None:
        self.path = layout.root
        self.readonly = readonly
        self.max_size = 0
        self.on_note: Callable[[str], None] = silent
        self.bytes_written = 0
        self.damaged: set[str] = set()
        self._layout = layout
        self._index = index
        self._verify_on_read = verify_on_read
        self._touched: dict[str, float] = {}
        self._flushed = time.monotonic()

    def _writable(self) -> None:
        if self.readonly:
            raise StoreReadOnly(f"the store {self.path} can only be read", "name another one with --store DIR")

    def _row(self, key: str) -> dict[str, Any] | None:
        row: dict[str, Any] | None = None
        if is_key(key):
            row = self._index.read(lambda tables: tables["entries"].get(key))
        return row if isinstance(row, dict) and row.get("format") == FORMAT else None

    def _change(self, change: Callable[[Tables], T]) -> T:
        try:
            return self._index.write(change)
        except OSError as error:
            raise StoreFull(f"the disk of the store {self.path} is full", "conduit cache prune") from error

    def _set_aside(self, key: str, row: Mapping[str, Any], reason: str) -> bool:
        """Quarantine an entry, unless it was replaced since `row` was read: then False."""
        if not self.readonly:

            def change(tables: Tables) -> bool:
                if tables["entries"].get(key) != row:
                    return False
                room.set_aside(self._layout, tables, key)
                return True

            if not self._change(change):
                return False
        self.damaged.add(key)
        self.on_note(f"cache entry {key[:12]} is damaged ({reason}) and was set aside")
        return True

    def _forget(self, key: str, row: Mapping[str, Any]) -> None:
        """Drop the row of a file that vanished, unless the entry is back."""
        if self.readonly:
            return

        def change(tables: Tables) -> None:
            if tables["entries"].get(key) == row and self._layout.size_of(key) is None:
                room.drop(self._layout, tables, key)

        self._change(change)

    def _touch(self, key: str) -> None:
        """Note a use. Uses are written in batches: reading must not cost a commit each time."""
        self._touched[key] = time.time()
        if len(self._touched) >= 256 or time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self._flush()

    def _flush(self) -> None:
        touched, self._touched = self._touched, {}
        self._flushed = time.monotonic()
        if self.readonly or not touched:
            return

        def change(tables: Tables) -> None:
            for key, when in touched.items():
                old = tables["used"].get(key)
                if old is not None and old[0] < when:
                    tables["used"].put(key, [when, old[1]])

        with suppress(OSError):  # a full disk: the order of eviction may be stale, nothing else
            self._index.write(change)


def unavailable(path: Path, error: OSError) -> StoreError:
    if error.errno in FULL:
        return StoreFull(f"there is no room for a store in {path}", "free some disk, or name another --store DIR")
    if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP):
        return StoreLockless(path)
    if error.errno in _REFUSED:
        return StoreReadOnly(f"the store {path} can't be written", "check its rights, or use --store DIR")
    return StoreUnavailable(
        f"the store {path} can't be used: {error.strerror or error}",
        "choose another folder with --store DIR or CONDUIT_STORE",
    )
