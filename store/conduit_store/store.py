"""The store: written once, checked on every read, least recently used out first."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from conduit_store import room
from conduit_store.errors import StoreDamaged, StoreError, StoreFull
from conduit_store.handle import silent, unavailable
from conduit_store.index import Index
from conduit_store.keeping import Keeping
from conduit_store.layout import Layout

__all__ = ["Store"]

_DEFAULT_CAP = 20 * 2**30


class Store(Keeping):
    """Page states on disk. Open with `Store.open`; a context manager; safe to use from several threads.

    Its methods stand where they belong: `reading`, `writing`, `keeping`; opening and closing here.

    Attributes:
        path: the store's folder.
        readonly: nothing can be written here.
        max_size: cap in bytes of all entries' files.
        on_note: is told one sentence when an entry was found damaged, or entries had to go.
        bytes_written: bytes of entries' files that this handle has written.
        damaged: keys that this handle found damaged and set aside.
    """

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        max_size: int | None = None,
        verify_on_read: bool = True,
        on_note: Callable[[str], None] | None = None,
    ) -> Store:
        """Open a store, or make one. What killed writers left is collected; a cap that is passed is met.

        Args:
            path: its folder.
            max_size: cap in bytes; None means 20 GiB or a tenth of the disk's free space (what the store
                holds counts as free), whichever is less.
            verify_on_read: check the checksums of an entry's data whenever it is read; its size, header and
                identity are always checked.
            on_note: see the attribute.

        Raises:
            StoreUnavailable: the folder can't be made, is no store, or its disk has no file locks (`StoreLockless`).
            StoreFull: there is no room even for an empty store.
        """
        layout = Layout(Path(path).expanduser().resolve())
        try:
            readonly = layout.index.is_dir() and not os.access(layout.root, os.W_OK)
            layout.check() if readonly else layout.make()
            index, notes = _open_index(layout, readonly)
        except OSError as error:
            raise unavailable(layout.root, error) from error
        store = cls(layout, index, readonly=readonly, verify_on_read=verify_on_read)
        store.on_note = on_note or silent
        try:
            store._settle(max_size)
        except BaseException:
            index.close()
            raise
        for note in notes:
            store.on_note(note)
        return store

    def _settle(self, max_size: int | None) -> None:
        """Collect leftovers, make index and disk agree, keep to the cap."""
        disk = self._layout.sizes()
        if max_size is None:
            free = shutil.disk_usage(self.path).free + sum(disk.values())
            max_size = min(_DEFAULT_CAP, free // 10)
        self.max_size = max_size
        if self.readonly:
            return
        with suppress(OSError):  # a full disk must not keep a store from being read
            room.collect(self._layout)
            if self._index.read(lambda tables: {key for key, _ in tables["entries"].items()}) != disk.keys():
                self._index.write(lambda tables: room.adopt(self._layout, tables))
        if sum(disk.values()) > max_size:
            with suppress(StoreFull, OSError):
                gone = self._index.write(lambda tables: room.evict(self._layout, tables, self.max_size))
                size = room.human_size(max_size)
                self.on_note(f"the store was over its limit of {size}: {len(gone)} entries were removed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Note what was used, and close. Entries that were read stay valid. May be called twice."""
        with suppress(StoreError):
            self._flush()
        self._index.close()


def _open_index(layout: Layout, readonly: bool) -> tuple[Index, list[str]]:
    """Open the index; a damaged one is set aside and made anew from the entries' headers."""
    try:
        return Index(layout.index, readonly=readonly), []
    except StoreDamaged:
        if readonly:
            raise
    os.replace(layout.index, layout.quarantine / f"index.{uuid.uuid4().hex[:8]}")
    layout.make()
    return Index(layout.index, readonly=False), ["the store's index was damaged and was made anew"]
