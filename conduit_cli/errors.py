"""Conduit's exception tree: every error that a user sees is one of these.

Exit codes: 1 unexpected, 2 usage, 3 input, 4 model, 5 store, 130 interrupted.
"""

from __future__ import annotations

from conduit_store.errors import ConduitError, StoreError

__all__ = ["ConduitError", "InputError", "ModelError", "StoreError", "UsageError", "first_line"]


class UsageError(ConduitError):
    """The command's words are off: an unknown policy, a ratio outside 0 to 1, no question."""

    exit_code = 2


class InputError(ConduitError):
    """A document or picture can't be read: missing, damaged, locked, empty, not what its name says."""

    exit_code = 3


class ModelError(ConduitError):
    """The model can't be loaded or can't be served: missing weights, unsupported architecture."""

    exit_code = 4


def first_line(error: Exception) -> str:
    """What another library's error says, in at most 200 characters."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
