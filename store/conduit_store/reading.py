"""Looking into the store: an entry is checked whenever it is read, and set aside when it is damaged."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any

from conduit_store import census
from conduit_store.container import Header, check_data, read_header
from conduit_store.entry import Entry
from conduit_store.errors import StoreDamaged, StoreIdentityMismatch
from conduit_store.handle import Handle, unavailable
from conduit_store.identity import canonical_json, describe_difference, is_key
from conduit_store.records import EntryInfo, StoreStats

__all__ = ["Reading", "checked_header"]


class Reading(Handle):
    """The part of `Store` that reads."""

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
            raise unavailable(self.path, error) from error
        try:
            header = checked_header(fd, key, row)
            if self._verify_on_read:
                check_data(fd, header)
            return Entry(fd, header)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EISDIR):
                raise unavailable(self.path, error) from error  # our trouble, not the file's
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


def checked_header(fd: int, key: str, row: Mapping[str, Any]) -> Header:
    header = read_header(fd)
    found = header.record
    if found["key"] != key:
        difference = describe_difference(row["identity"], found["identity"])
        raise StoreDamaged(f"its file holds entry {str(found['key'])[:12]}; {difference}")
    if header.digest != row["checksum"]:
        raise StoreDamaged("its file is not the one that was written")
    return header
