"""Putting entries into the store, and keeping some of them there for a while."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from conduit_store import census, codecs, room
from conduit_store.container import Header, make_header, tensor_bytes
from conduit_store.errors import StoreFull, StoreLockless
from conduit_store.handle import FULL, unavailable
from conduit_store.identity import FORMAT, entry_key
from conduit_store.index import Tables
from conduit_store.layout import create_locked, release, sync_folder
from conduit_store.reading import Reading
from conduit_store.records import EntryInfo

__all__ = ["Writing"]


class Writing(Reading):
    """The part of `Store` that writes.

    A file is put in its place only inside a write transaction of the index, which one process at a time can
    hold; nothing is ever changed in place. So a reader sees a whole entry or none.
    """

    def write(self, identity: Mapping[str, Any], tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> EntryInfo:
        """Write an entry; if a sound one is there already, nothing is written.

        Args:
            identity: everything the entry depends on; `codec` says how the tensors are put into bytes.
            tensors: by name; moved to the CPU and stored in their own dtype unless the codec says otherwise.
            meta: facts for readers, JSON.

        Raises:
            StoreReadOnly: nothing can be written here.
            StoreFull: no room, after evicting what may be evicted and trying again.
        """
        self._writable()
        key = entry_key(identity)
        if self.contains(key):
            info = self.info(key)
            if info is not None:
                return info
        stored, schemes = codecs.encode(str(identity.get("codec") or "exact"), tensors)
        header = make_header(identity, meta, schemes, stored)
        if header.file_size > self.max_size:
            page, cap = room.human_size(header.file_size), room.human_size(self.max_size)
            raise StoreFull(f"a page of {page} does not fit under the store's limit of {cap}", "raise --max-size")
        try:
            return self._place(header, stored)
        except OSError as error:
            if error.errno not in FULL:
                raise unavailable(self.path, error) from error
        try:
            need = 2 * header.file_size
            self._index.write(lambda tables: room.evict(self._layout, tables, self.max_size, free=need, keep=(key,)))
            return self._place(header, stored)
        except OSError as error:
            raise StoreFull(
                f"the disk of the store {self.path} is full", "conduit cache prune, or --store DIR"
            ) from error

    def _place(self, header: Header, stored: Mapping[str, Tensor]) -> EntryInfo:
        """To a temporary file, flushed; then renamed and indexed in one transaction."""
        self._flush()  # what was just read is not what should go
        key, size = str(header.record["key"]), header.file_size
        limit = self.max_size - size
        self._index.write(lambda tables: room.evict(self._layout, tables, limit, keep=(key,)))
        fd, temporary = create_locked(self._layout.tmp, ".safetensors")
        try:
            _write_all(fd, memoryview(header.raw))
            for name in header.tensors:
                _write_all(fd, tensor_bytes(stored[name]))
            os.fsync(fd)
            return self._index.write(lambda tables: self._put(tables, temporary, header))
        finally:
            release(fd, temporary)

    def _put(self, tables: Tables, temporary: Path, header: Header) -> EntryInfo:
        key, size = str(header.record["key"]), header.file_size
        row = tables["entries"].get(key)
        known = census.info(tables, key)
        if known is not None and row is not None and self._layout.size_of(key) == row["nbytes"]:
            return known  # another process was first
        room.evict(self._layout, tables, self.max_size - size, keep=(key,))
        target = self._layout.object(key)
        if not target.parent.is_dir():
            target.parent.mkdir(mode=0o700)
            sync_folder(self._layout.objects)
        if temporary.exists():  # it is gone when the transaction runs a second time
            os.replace(temporary, target)
            sync_folder(target.parent)
            self.bytes_written += size
        now = time.time()
        record = header.record
        row = {
            "identity": record["identity"],
            "meta": record["meta"],
            "nbytes": size,
            "created": now,
            "format": FORMAT,
            "checksum": header.digest,
        }
        tables["entries"].put(key, row)
        tables["used"].put(key, [now, size])
        return EntryInfo(key=key, used=now, **row)

    @contextmanager
    def pin(self, keys: Iterable[str]) -> Iterator[None]:
        """Keep these entries from eviction by any process, whether they are stored yet or not.

        A pin ends with the block, or with the process. Where the disk has no room or no lock for one, there is
        none: who finds an entry gone makes it again.
        """
        with ExitStack() as stack:
            if not self.readonly:
                with suppress(OSError, StoreFull, StoreLockless):
                    self._pin(stack, json.dumps(sorted(set(keys))).encode())
            yield

    def _pin(self, stack: ExitStack, text: bytes) -> None:
        fd, path = create_locked(self._layout.pins, ".json")
        stack.callback(release, fd, path)
        # Under the writers' mutex: an eviction is over by now, or will see this pin.
        self._index.write(lambda _tables: _write_whole(fd, text))


def _write_all(fd: int, data: memoryview) -> None:
    while data:
        data = data[os.write(fd, data[: 1 << 28]) :]


def _write_whole(fd: int, data: bytes) -> None:
    os.lseek(fd, 0, os.SEEK_SET)  # a transaction may run twice
    _write_all(fd, memoryview(data))
