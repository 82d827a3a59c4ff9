"""Looking over the entries: listing, filters, totals."""

from __future__ import annotations

import fnmatch
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from conduit_store.identity import FORMAT
from conduit_store.index import Tables
from conduit_store.layout import Layout
from conduit_store.records import EntryInfo, StoreStats

__all__ = ["all_entries", "info", "select", "stats"]


def info(tables: Tables, key: str) -> EntryInfo | None:
    """What the index knows of one entry."""
    row = tables["entries"].get(key)
    return None if not isinstance(row, dict) else _record(key, row, tables["used"].get(key), tables["labels"].get(key))


def all_entries(tables: Tables) -> list[EntryInfo]:
    """Every entry, least recently used first."""
    used, labels = dict(tables["used"].items()), dict(tables["labels"].items())
    rows = [_record(key, row, used.get(key), labels.get(key)) for key, row in tables["entries"].items()]
    return sorted(rows, key=lambda row: row.used)


def _record(key: str, row: dict[str, Any], used: Any, label: Any) -> EntryInfo:
    meta = dict(row["meta"])
    if label:
        meta["document"], meta["page"] = label
    return EntryInfo(
        key=key,
        identity=row["identity"],
        meta=meta,
        nbytes=row["nbytes"],
        created=row["created"],
        used=used[0] if used else row["created"],
        format=row.get("format", 0),
        checksum=row["checksum"],
    )


def model_of(row: EntryInfo) -> str:
    """The model's name in an entry's identity (`model_name`, else `model`)."""
    return str(row.identity.get("model_name") or row.identity.get("model"))


def select(
    rows: Sequence[EntryInfo],
    *,
    document: str | None = None,
    model: str | None = None,
    codec: str | None = None,
    older_than: float | None = None,
    larger_than: int | None = None,
) -> list[EntryInfo]:
    """The rows that meet every filter that is not None; names may be patterns (`*.pdf`)."""
    now = time.time()
    return [
        row
        for row in rows
        if (document is None or fnmatch.fnmatch(str(row.meta.get("document")), document))
        and (model is None or fnmatch.fnmatch(model_of(row), model))
        and codec in (None, row.identity.get("codec"))
        and (older_than is None or now - row.used > older_than)
        and (larger_than is None or row.nbytes > larger_than)
    ]


def stats(layout: Layout, rows: Sequence[EntryInfo], max_size: int) -> StoreStats:
    """Totals over all entries."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        name = (model_of(row), str(row.identity.get("codec")))
        fresh = {"model": name[0], "codec": name[1], "pages": 0, "nbytes": 0, "tokens": 0}
        group = groups.setdefault(name, fresh)
        group["pages"] += 1
        group["nbytes"] += row.nbytes
        group["tokens"] += int(row.meta.get("tokens") or 0)
    aside = [_size(path) for path in layout.quarantine.iterdir()] if layout.quarantine.is_dir() else []
    old = [row.nbytes for row in rows if row.format != FORMAT]
    return StoreStats(
        path=str(layout.root),
        entries=len(rows),
        nbytes=sum(row.nbytes for row in rows),
        max_size=max_size,
        quarantined=len(aside),
        quarantined_bytes=sum(aside),
        outdated=len(old),
        outdated_bytes=sum(old),
        index_bytes=_size(layout.index / "data.mdb"),
        free=shutil.disk_usage(layout.root).free,
        groups=tuple(groups.values()),
    )


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0
