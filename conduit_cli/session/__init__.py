"""The library: open a store, load a model, ingest documents, ask. The commands use nothing else.

Names load on first use, so that a command can refuse its options before torch is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conduit_cli.session.conversation import Conversation
    from conduit_cli.session.opening import (
        default_store_path,
        load_model,
        open_store,
        open_store_or_scratch,
    )
    from conduit_cli.session.options import AskOptions, DocumentRequest
    from conduit_cli.session.session import Session

__all__ = [
    "AskOptions",
    "Conversation",
    "DocumentRequest",
    "Session",
    "default_store_path",
    "load_model",
    "open_store",
    "open_store_or_scratch",
]

_HOMES = {
    "conduit_cli.session.conversation": ("Conversation",),
    "conduit_cli.session.opening": (
        "default_store_path",
        "load_model",
        "open_store",
        "open_store_or_scratch",
    ),
    "conduit_cli.session.options": ("AskOptions", "DocumentRequest"),
    "conduit_cli.session.session": ("Session",),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
