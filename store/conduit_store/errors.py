"""The root of Conduit's exception tree, and the store's branch of it.

The store is the lowest layer, so the root lives here; `conduit_cli.errors` adds
the branches for usage, input and models.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "ConduitError",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreIdentityMismatch",
    "StoreLockless",
    "StoreReadOnly",
    "StoreUnavailable",
]


class ConduitError(Exception):
    """Anything Conduit reports to a user: one sentence, and what to type next.

    Args:
        message: one sentence that names the thing at fault.
        hint: the next command to type or thing to change; shown on its own line.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class StoreError(ConduitError):
    """The on-disk store can't do what was asked."""

    exit_code = 5


class StoreUnavailable(StoreError):
    """The store can't be opened: missing rights, no locks, not a store."""


class StoreLockless(StoreUnavailable):
    """The store's disk gives no file locks, as network folders often do not."""

    def __init__(self, folder: object) -> None:
        super().__init__(
            f"the disk of {folder} gives no file locks (network folders often do not)",
            "choose a folder on a local disk with --store DIR or CONDUIT_STORE",
        )


class StoreReadOnly(StoreError):
    """A write was asked of a store that can only be read."""


class StoreFull(StoreError):
    """No room for an entry, after evicting what could be evicted."""


class StoreDamaged(StoreError):
    """An entry or the index does not hold what its header says."""


class StoreIdentityMismatch(StoreDamaged):
    """An entry's header names another page, model or setting than the one asked for."""
