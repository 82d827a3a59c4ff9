"""The store: written once, checked on every read, least recently used out first."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from torch import Tensor

from conduit_store import census, codecs, room
from conduit_store.container import Header, check_data, make_header, read_header, tensor_bytes
from conduit_store.entry import Entry
from conduit_store.errors import (
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreIdentityMismatch,
    StoreLockless,
    StoreReadOnly,
    StoreUnavailable,
)
from conduit_store.identity import FORMAT, canonical_json, describe_difference, entry_key, is_key
from conduit_store.index import Index, Tables
from conduit_store.layout import Layout, create_locked, release, sync_folder
from conduit_store.records import EntryInfo, Pruned, StoreStats, Verified

__all__ = ["Store"]

T = TypeVar("T")
_DEFAULT_CAP = 20 * 2**30
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)
_FLUSH_SECONDS = 30.0
_MEMO_BYTES = 64 * 1024
_MEMO_ROWS = 100_000


def _silent(_note: str) -> None:
    """Where nobody listens."""


class Store:
    """Page states on disk. Open with `Store.open`; a context manager; safe to use from several threads.

    A file is put in its place only inside a write transaction of the index, which one process at a time can
    hold; nothing is ever changed in place. So a reader sees a whole entry or none.

    Attributes:
        path: the store's folder.
        readonly: nothing can be written here.
        max_size: cap in bytes of all entries' files.
        on_note: is told one sentence when an entry was found damaged, or entries had to go.
        bytes_written: bytes of entries' files that this handle has written.
        damaged: keys that this handle found damaged and set aside.
    """

    def __init__(self, layout: Layout, index: Index, *, readonly: bool, verify_on_read: bool) -> None:
        self.path = layout.root
        self.readonly = readonly
        self.max_size = _DEFAULT_CAP
        self.on_note: Callable[[str], None] = _silent
        self.bytes_written = 0
        self.damaged: set[str] = set()
        self._layout = layout
        self._index = index
        self._verify_on_read = verify_on_read
        self._touched: dict[str, float] = {}
        self._flushed = time.monotonic()

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
            raise _unavailable(layout.root, error) from error
        store = cls(layout, index, readonly=readonly, verify_on_read=verify_on_read)
        store.on_note = on_note or _silent
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

    # Reading

    def contains(self, key: str) -> bool:
        """Whether an entry is indexed and its file has the size that the index says.

        Nothing is written, unless the file has another size: then it is set aside as damaged.
        """
        row = self._row(key)
        if row is None:
            return False
        size = self._layout.size_of(key)
        if size == row["nbytes"]:
            return True
        if size is None:
            self._forget(key, row)
        else:
            self._set_aside(key, row, f"it has {size} bytes instead of {row['nbytes']}")
        return False

    def info(self, key: str) -> EntryInfo | None:
        """What the index knows of an entry."""
        if not is_key(key):
            return None
        return self._index.read(lambda tables: census.info(tables, key))

    def read(self, key: str, identity: Mapping[str, Any]) -> Entry | None:
        """Open an entry for reading; None is a miss.

        A damaged entry is moved into quarantine, reported through `on_note`, and is a miss.

        Raises:
            StoreIdentityMismatch: the entry is sound, but is of something other than `identity`.
        """
        for _ in range(3):  # again if another process replaced the entry between our looking and reading
            row = self._row(key)
            if row is None:
                return None
            try:
                entry = self._open_entry(key, row)
                break
            except FileNotFoundError:
                self._forget(key, row)
            except StoreDamaged as damage:
                if self._set_aside(key, row, damage.message):
                    return None
        else:
            return None
        if canonical_json(entry.identity) != canonical_json(dict(identity)):
            difference = describe_difference(identity, entry.identity)
            raise StoreIdentityMismatch(
                f"cache entry {key[:12]} is of something else: {difference}",
                "this is a fault of Conduit: conduit cache rm, and please report it",
            )
        self._touch(key)
        return entry

    def _open_entry(self, key: str, row: Mapping[str, Any]) -> Entry:
        try:
            fd = os.open(self._layout.object(key), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _unavailable(self.path, error) from error
        try:
            header = _checked_header(fd, key, row)
            if self._verify_on_read:
                check_data(fd, header)
            return Entry(fd, header)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EISDIR):
                raise _unavailable(self.path, error) from error  # our trouble, not the file's
            raise StoreDamaged(f"it can't be read ({error.strerror})") from error
        finally:
            os.close(fd)

    def entries(self) -> list[EntryInfo]:
        """All entries, least recently used first."""
        return self._index.read(census.all_entries)

    def select(self, **filters: Any) -> list[EntryInfo]:
        """Entries that meet every filter given, least recently used first.

        Args:
            **filters: `document` (last known name or a pattern like `*.pdf`), `model`, `codec`,
                `older_than` (seconds since last use), `larger_than` (bytes).
        """
        return census.select(self.entries(), **filters)

    def stats(self) -> StoreStats:
        """Totals over the store."""
        return census.stats(self._layout, self.entries(), self.max_size)

    # Writing

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
            if error.errno not in _FULL:
                raise _unavailable(self.path, error) from error
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

    # Housekeeping

    def remember(self, kind: str, key: str, value: Any) -> None:
        """Keep a small JSON value; nothing is written where it is there already, or in a read-only store.

        Raises:
            StoreError: the value is over 64 KiB.
        """
        if len(canonical_json(value)) > _MEMO_BYTES:
            raise StoreError(f"a note of kind {kind!r} is too long for the index")
        if self.readonly or self.recall(kind, key) == value:
            return
        name = canonical_json([kind, key])

        def change(tables: Tables) -> None:
            memo = tables["memo"]
            if len(memo) >= _MEMO_ROWS:  # it only saves work: halve it rather than let it grow for ever
                for old, _ in list(memo.items())[::2]:
                    memo.delete(old)
            memo.put(_short(name), [name, value])

        self._change(change)

    def recall(self, kind: str, key: str) -> Any:
        """A value given to `remember`, or None."""
        name = canonical_json([kind, key])
        found = self._index.read(lambda tables: tables["memo"].get(_short(name)))
        return found[1] if isinstance(found, list) and found[0] == name else None

    def label(self, key: str, document: str, page: int) -> None:
        """Say under which name a page was last seen; nothing is written if that is known."""
        if self.readonly or self._index.read(lambda tables: tables["labels"].get(key)) == [document, page]:
            return
        self._change(lambda tables: tables["labels"].put(key, [document, page]))

    def remove(self, keys: Sequence[str]) -> int:
        """Remove entries; bytes freed, at once. Who reads one of them now keeps what is mapped."""
        self._writable()
        known = [key for key in keys if is_key(key)]
        return self._index.write(lambda tables: sum(room.drop(self._layout, tables, key) for key in known))

    def prune(self, *, to_size: int | None = None, dry_run: bool = False, **filters: Any) -> Pruned:
        """Remove entries of other format versions, the quarantine, and what the arguments name.

        Args:
            to_size: also the least recently used ones until so many bytes are left.
            dry_run: only say what would go.
            **filters: also those that `select` finds (nothing without a filter).
        """
        if not dry_run:
            self._writable()
        rows = self.entries()
        chosen = {row.key for row in rows if row.format != FORMAT}
        if filters:
            chosen |= {row.key for row in census.select(rows, **filters)}
        if to_size is not None:
            left = sum(row.nbytes for row in rows if row.key not in chosen)
            for row in rows:
                if left > to_size and row.key not in chosen:
                    chosen.add(row.key)
                    left -= row.nbytes
        gone = tuple(row for row in rows if row.key in chosen)
        size = sum(row.nbytes for row in gone)
        stats = census.stats(self._layout, rows, self.max_size)
        if not dry_run:
            self.remove([row.key for row in gone])
            self.clear_quarantine()
        return Pruned(gone, stats.quarantined, size + stats.quarantined_bytes, dry_run)

    def verify(self, *, fix: bool = False) -> list[Verified]:
        """Check size, header and checksums of every entry; with `fix`, set aside what is not sound."""
        verdicts = []
        for key, row in self._index.read(lambda tables: list(tables["entries"].items())):
            if row.get("format") != FORMAT:
                verdicts.append(Verified(key, "outdated", f"format {row.get('format')}"))
                continue
            try:
                fd = os.open(self._layout.object(key), os.O_RDONLY | os.O_CLOEXEC)
                try:
                    check_data(fd, _checked_header(fd, key, row))
                finally:
                    os.close(fd)
                verdicts.append(Verified(key, "ok"))
            except FileNotFoundError:
                verdicts.append(Verified(key, "missing", "its file is gone"))
                if fix:
                    self._forget(key, row)
            except StoreDamaged as damage:
                verdicts.append(Verified(key, "damaged", damage.message))
                if fix:
                    self._set_aside(key, row, damage.message)
        return verdicts

    def clear_quarantine(self) -> int:
        """Delete the files that were set aside; bytes freed."""
        self._writable()
        return room.clear_quarantine(self._layout)

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


def _checked_header(fd: int, key: str, row: Mapping[str, Any]) -> Header:
    header = read_header(fd)
    found = header.record
    if found["key"] != key:
        difference = describe_difference(row["identity"], found["identity"])
        raise StoreDamaged(f"its file holds entry {str(found['key'])[:12]}; {difference}")
    if header.digest != row["checksum"]:
        raise StoreDamaged("its file is not the one that was written")
    return header


def _write_all(fd: int, data: memoryview) -> None:
    while data:
        data = data[os.write(fd, data[: 1 << 28]) :]


def _write_whole(fd: int, data: bytes) -> None:
    os.lseek(fd, 0, os.SEEK_SET)  # a transaction may run twice
    _write_all(fd, memoryview(data))


def _short(name: str) -> str:
    """LMDB keys are at most 511 bytes."""
    return hashlib.sha256(name.encode()).hexdigest()


def _unavailable(path: Path, error: OSError) -> StoreError:
    if error.errno in _FULL:
        return StoreFull(f"there is no room for a store in {path}", "free some disk, or name another --store DIR")
    if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP):
        return StoreLockless(path)
    if error.errno in _REFUSED:
        return StoreReadOnly(f"the store {path} can't be written", "check its rights, or use --store DIR")
    return StoreUnavailable(
        f"the store {path} can't be used: {error.strerror or error}",
        "choose another folder with --store DIR or CONDUIT_STORE",
    )
