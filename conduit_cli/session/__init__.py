"""The library: open a store, load a model, ingest documents, ask. The commands use nothing else."""

from __future__ import annotations

from conduit_cli.session.conversation import Conversation
from conduit_cli.session.opening import default_store_path, load_model, open_store
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
]
