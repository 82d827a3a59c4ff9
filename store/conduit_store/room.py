"""Room in the store: pins, eviction, and bringing index and disk together."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from conduit_store.container import read_header
from conduit_store.errors import StoreDamaged, StoreFull
from conduit_store.identity import FORMAT, is_key
from conduit_store.index import Tables
from conduit_store.layout import Layout, is_abandoned

__all__ = ["adopt", "clear_quarantine", "collect", "drop", "evict", "human_size", "pinned", "set_aside"]

_QUARANTINE_FILES = 8


def pinned(layout: Layout) -> set[str]:
    """Keys pinned by living processes; the pins of dead ones are removed."""
    keys: set[str] = set()
    for path in layout.pins.iterdir():
        if is_abandoned(path):
            path.unlink(missing_ok=True)
            continue
        with suppress(OSError, ValueError):
            keys.update(json.loads(path.read_text()))
    return keys


def drop(layout: Layout, tables: Tables, key: str) -> int:
    """Remove an entry, file first: on a full disk that makes the room that the index needs to change."""
    row = tables["entries"].get(key)
    size = layout.size_of(key)
    layout.object(key).unlink(missing_ok=True)
    for name in ("entries", "used", "labels"):
        tables[name].delete(key)
    return size if size is not None else int(row["nbytes"]) if row else 0


def evict(layout: Layout, tables: Tables, limit: int, *, free: int = 0, keep: Collection[str] = ()) -> list[str]:
    """Remove least recently used entries until at most `limit` bytes are left and `free` are gone.

    Pinned entries stay. Sizes are taken from the disk before anything is removed.

    Returns:
        keys that were removed.

    Raises:
        StoreFull: what is left is pinned.
    """
    used: dict[str, list[Any]] = dict(tables["used"].items())
    if sum(size for _, size in used.values()) <= limit and not free:
        return []
    clear_quarantine(layout)
    disk = layout.sizes()
    for key in used.keys() - disk.keys():
        drop(layout, tables, key)
    total, gone, removed = sum(disk.values()), 0, []
    held = pinned(layout) | set(keep)
    for key in sorted(disk, key=lambda key: used.get(key, [0.0])[0]):
        if total <= limit and gone >= free:
            break
        if key not in held:
            size = drop(layout, tables, key)
            total, gone = total - size, gone + size
            removed.append(key)
    if total > limit:
        raise StoreFull(
            f"the cache is full ({human_size(total)} in use by this and other prompts)",
            "raise the limit with --max-size, or ask about fewer pages",
        )
    return removed


def set_aside(layout: Layout, tables: Tables, key: str) -> None:
    """Move a damaged file into quarantine, of which the newest few are kept."""
    with suppress(FileNotFoundError):
        os.replace(layout.object(key), layout.quarantine / f"{key}.{uuid.uuid4().hex[:8]}")
    drop(layout, tables, key)
    kept = sorted(layout.quarantine.iterdir(), key=lambda path: path.stat().st_ctime_ns)
    for path in kept[:-_QUARANTINE_FILES]:
        _delete(path)


def clear_quarantine(layout: Layout) -> int:
    """Delete the files that were set aside; bytes freed."""
    freed = 0
    for path in layout.quarantine.iterdir():
        freed += path.stat().st_size
        _delete(path)
    return freed


def _delete(path: Path) -> None:
    if path.is_dir():
        for inner in path.iterdir():
            inner.unlink(missing_ok=True)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def collect(layout: Layout) -> None:
    """Remove temporary files whose writer is dead."""
    for path in layout.tmp.iterdir():
        if is_abandoned(path):
            path.unlink(missing_ok=True)


def adopt(layout: Layout, tables: Tables) -> None:
    """Make index and disk agree.

    Rows without a file go. A whole file without a row (its writer was killed just before indexing it, or
    the index was lost) is taken in, as its header says all that the row needs; any other file goes.
    """
    disk = layout.sizes()
    rows = {key for key, _ in tables["entries"].items()}
    for key in rows - disk.keys():
        drop(layout, tables, key)
    for key in disk.keys() - rows:
        try:
            tables["entries"].put(key, _row_of(layout.object(key), key))
            tables["used"].put(key, [time.time(), disk[key]])
        except (StoreDamaged, FileNotFoundError):
            layout.object(key).unlink(missing_ok=True)


def _row_of(path: Path, key: str) -> dict[str, Any]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        header = read_header(fd)
        if not is_key(key) or header.record["key"] != key:
            raise StoreDamaged("it holds another entry")
        created = os.fstat(fd).st_mtime
    finally:
        os.close(fd)
    return {
        "identity": header.record["identity"],
        "meta": header.record["meta"],
        "nbytes": header.file_size,
        "created": created,
        "format": FORMAT,
        "checksum": header.digest,
    }


def human_size(nbytes: int) -> str:
    """`20.0 GiB`, `3.5 MiB`."""
    return f"{nbytes / 2**30:.1f} GiB" if nbytes >= 2**30 else f"{nbytes / 2**20:.1f} MiB"
