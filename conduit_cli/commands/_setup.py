"""From parsed options to a session: what ingest, ask, chat and inspect have in common."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conduit_cli import policies
from conduit_cli.console.output import Output
from conduit_cli.console.progress import ConsoleListener
from conduit_cli.errors import UsageError
from conduit_cli.units import parse_size

if TYPE_CHECKING:
    from conduit_cli.session import DocumentRequest, Session
    from conduit_store import Store

__all__ = ["Setup", "policy_options", "requests"]

_CODECS = ("exact", "bf16", "int8")
_DEVICES = ("auto", "cpu", "cuda")
_DTYPES = ("auto", "float32", "bfloat16", "float16")
_ABOUT_BUNDLED = (
    "Using the bundled model: it reads short pages of large print and nothing else, no small print, photos "
    "or reasoning. For a real one: conduit models use Qwen/Qwen2.5-VL-3B-Instruct"
)


@dataclass(frozen=True)
class Setup:
    """The model and store that a command works with; checked before anything heavy is imported."""

    model: str | None
    device: str
    dtype: str
    max_pixels: int | None
    offline: bool
    store: Path | None
    max_size: str | None
    codec: str
    verify: bool = True

    def __post_init__(self) -> None:
        _one_of("codec", self.codec, _CODECS)
        _one_of("device", self.device, _DEVICES)
        _one_of("dtype", self.dtype, _DTYPES)

    @contextmanager
    def session(self, output: Output, listener: ConsoleListener, *, storing: bool = False) -> Iterator[Session]:
        """Open the store, then load the model: a store that can't be used is told at once.

        Args:
            storing: the command is about the store, so that a disk that can hold none is an error; other
                commands answer without storing.
        """
        from conduit_cli.models.names import resolve_model_name

        _name, origin = resolve_model_name(self.model)
        cap = parse_size(self.max_size)

        from conduit_cli.session import Session, load_model, open_store, open_store_or_scratch
        from conduit_cli.session.selfcheck import ensure_checked

        if storing:
            opened: AbstractContextManager[Store] = open_store(self.store, max_size=cap, verify=self.verify)
        else:
            opened = open_store_or_scratch(self.store, max_size=cap, verify=self.verify, on_note=output.note)
        with opened as store, listener:
            store.on_note = listener.note
            model = load_model(
                self.model,
                device=self.device,
                dtype=self.dtype,
                max_pixels=self.max_pixels,
                offline=self.offline,
            )
            output.note(f"model {model.name} on {model.device} in {model.dtype}")
            if origin == "bundled":
                output.note(_ABOUT_BUNDLED)
            ensure_checked(model, store, listener)
            yield Session(model, store, codec=self.codec, listener=listener)


def requests(
    paths: Sequence[Path], pages: str | None, password_file: Path | None, *, pages_of_all: bool = False
) -> list[DocumentRequest]:
    """Documents of one command, each opened once here: what is wrong with them is told before a model is loaded.

    Args:
        pages: applies to the first document; to every one with `pages_of_all`.

    Raises:
        InputError: a document can't be opened.
        UsageError: the page range is off.
    """
    from conduit_cli.documents import read_password
    from conduit_cli.session import DocumentRequest

    password = read_password(password_file) if password_file else None
    return [
        _opened(DocumentRequest(path, pages if index == 0 or pages_of_all else None, password))
        for index, path in enumerate(paths)
    ]


def _opened(request: DocumentRequest) -> DocumentRequest:
    """The request, with a password where one is needed and a person at the terminal types it."""
    from conduit_cli.documents import DocumentLocked, open_document, parse_pages

    try:
        with open_document(request.path, password=request.password) as document:
            parse_pages(request.pages, document.page_count)
        return request
    except DocumentLocked as locked:
        if locked.tried or not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise
    import typer

    password = typer.prompt(f"Password of {request.path.name}", hide_input=True, err=True)
    return _opened(replace(request, password=password))


def policy_options(lambda_: float | None, pairs: Sequence[str] | None = None) -> Mapping[str, Any]:
    """Options of the policy: the one that has a flag of its own, and `NAME=VALUE` pairs.

    Raises:
        UsageError: a pair has no `=`.
    """
    options: dict[str, Any] = {} if lambda_ is None else {"lambda": lambda_}
    for pair in pairs or ():
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"{pair!r} is no policy option", "write it as NAME=VALUE: --policy-option norm=false")
        options[name.strip()] = policies.value_of(value.strip())
    return options


def _one_of(what: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UsageError(f"there is no {what} {value!r}", f"choose one of: {', '.join(known)}")
