"""Housekeeping: removing, verifying, and the small notes beside the entries."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

from conduit_store import census, room
from conduit_store.container import check_data
from conduit_store.errors import StoreDamaged, StoreError
from conduit_store.identity import FORMAT, canonical_json, is_key
from conduit_store.index import Tables
from conduit_store.reading import checked_header
from conduit_store.records import Pruned, Verified
from conduit_store.writing import Writing

__all__ = ["Keeping"]

_MEMO_BYTES = 64 * 1024
_MEMO_ROWS = 100_000


class Keeping(Writing):
    """The part of `Store` that keeps house."""

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
                    check_data(fd, checked_header(fd, key, row))
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


def _short(name: str) -> str:
    """LMDB keys are at most 511 bytes."""
    return hashlib.sha256(name.encode()).hexdigest()
