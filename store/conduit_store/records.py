"""What the store tells about its entries: plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["EntryInfo", "Pruned", "StoreStats", "Verified"]


@dataclass(frozen=True, slots=True)
class EntryInfo:
    """One entry, as the index knows it.

    Attributes:
        key: 64 hex digits.
        identity: all that the key is made of, in clear.
        meta: facts about the page (grid, tokens; `document` and `page` as last known).
        nbytes: size of its file.
        created, used: Unix times in seconds.
        format: format version it was written with; older ones are never read.
        checksum: SHA-256 of its header, which holds the checksums of its data.
    """

    key: str
    identity: Mapping[str, Any]
    meta: Mapping[str, Any]
    nbytes: int
    created: float
    used: float
    format: int
    checksum: str


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Totals over a store.

    Attributes:
        nbytes: bytes of all entries.
        max_size: the cap in force.
        quarantined, quarantined_bytes: damaged files that were set aside.
        outdated, outdated_bytes: entries of another format version, never read, freed by `prune`.
        index_bytes: size of the index file.
        free: bytes free on the disk.
        groups: per model and codec: `model`, `codec`, `pages`, `nbytes`, `tokens`.
    """

    path: str
    entries: int
    nbytes: int
    max_size: int
    quarantined: int
    quarantined_bytes: int
    outdated: int
    outdated_bytes: int
    index_bytes: int
    free: int
    groups: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Verified:
    """One entry's verdict: `ok`, `missing`, `damaged` or `outdated`, and why."""

    key: str
    verdict: Literal["ok", "missing", "damaged", "outdated"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What `prune` removed, or would remove: entries, how many quarantined files, and the bytes of both."""

    entries: tuple[EntryInfo, ...]
    quarantined: int
    nbytes: int
    dry_run: bool
