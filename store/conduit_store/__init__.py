"""A durable store of page states: tensors in files, an index in LMDB, keys by content.

It knows tensors, JSON and files, and nothing of models or terminals. The format is described in
`store/README.md`.
"""

from __future__ import annotations

from conduit_store.codecs import CODECS
from conduit_store.entry import Entry
from conduit_store.errors import (
    ConduitError,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreIdentityMismatch,
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
    "StoreReadOnly",
    "StoreStats",
    "StoreUnavailable",
    "Verified",
    "entry_key",
]
