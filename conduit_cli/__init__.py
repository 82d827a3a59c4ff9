"""Conduit: ask a local vision-language model many questions about the same pages.

The public library. Names load on first use, so that `import conduit_cli` stays light:

    from conduit_cli import AskOptions, DocumentRequest, Session, load_model, open_store

    with open_store() as store:
        session = Session(load_model(), store)
        report = DocumentRequest(Path("report.pdf"))
        session.ingest([report])
        print(session.ask([report], "What is the total?", AskOptions(ratio=0.1)).answer)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from conduit_cli._version import __version__

if TYPE_CHECKING:
    from conduit_cli.errors import ConduitError, InputError, ModelError, StoreError, UsageError
    from conduit_cli.models.loading import Model
    from conduit_cli.reports import Answer, IngestedPage, IngestReport, Listener, PageShare, TokenCounts
    from conduit_cli.session import (
        AskOptions,
        Conversation,
        DocumentRequest,
        Session,
        load_model,
        open_store,
    )

__all__ = [
    "Answer",
    "AskOptions",
    "ConduitError",
    "Conversation",
    "DocumentRequest",
    "IngestReport",
    "IngestedPage",
    "InputError",
    "Listener",
    "Model",
    "ModelError",
    "PageShare",
    "Session",
    "StoreError",
    "TokenCounts",
    "UsageError",
    "__version__",
    "load_model",
    "open_store",
]

_HOMES = {
    "conduit_cli.errors": ("ConduitError", "InputError", "ModelError", "StoreError", "UsageError"),
    "conduit_cli.models.loading": ("Model",),
    "conduit_cli.reports": (
        "Answer",
        "IngestReport",
        "IngestedPage",
        "Listener",
        "PageShare",
        "TokenCounts",
    ),
    "conduit_cli.session": (
        "AskOptions",
        "Conversation",
        "DocumentRequest",
        "Session",
        "load_model",
        "open_store",
    ),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
