"""A durable store of page states: tensors in files, an index in LMDB, keys by content.

It knows tensors, JSON and files, and nothing of models or terminals. The format is described in
`store/README.md`. Names load on first use: `conduit_store.errors` alone needs neither torch nor LMDB.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conduit_store.codecs import CODECS
    from conduit_store.entry import Entry
    from conduit_store.errors import (
        ConduitError,
        StoreDamaged,
        StoreError,
        StoreFull,
        StoreIdentityMismatch,
        StoreLockless,
        StoreReadOnly,
        StoreUnavailable,
    )
    from conduit_store.identity import FORMAT, JSON, entry_key
    from conduit_store.records import EntryInfo, Pruned, StoreStats, Verified
    from conduit_store.store import Store

__all__ = [
    "CODECS",
    "FORMAT",
    "JSON",
    "ConduitError",
    "Entry",
    "EntryInfo",
    "Pruned",
    "Store",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreIdentityMismatch",
    "StoreLockless",
    "StoreReadOnly",
    "StoreStats",
    "StoreUnavailable",
    "Verified",
    "entry_key",
]

_HOMES = {
    "conduit_store.codecs": ("CODECS",),
    "conduit_store.entry": ("Entry",),
    "conduit_store.errors": (
        "ConduitError",
        "StoreDamaged",
        "StoreError",
        "StoreFull",
        "StoreIdentityMismatch",
        "StoreLockless",
        "StoreReadOnly",
        "StoreUnavailable",
    ),
    "conduit_store.identity": ("FORMAT", "JSON", "entry_key"),
    "conduit_store.records": ("EntryInfo", "Pruned", "StoreStats", "Verified"),
    "conduit_store.store": ("Store",),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
