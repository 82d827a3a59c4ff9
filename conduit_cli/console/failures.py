"""Every exception becomes a sentence, a hint and an exit code, in this one place."""

from __future__ import annotations

import errno
import os
import sys
import traceback

import typer
from typer.exceptions import TyperException

from conduit_cli.console.output import Output
from conduit_cli.errors import ConduitError, StoreError

__all__ = ["report"]

_INTERRUPTED = 130
_USAGE = 2
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def report(error: BaseException) -> int:
    """Tell the user about an exception; the exit code.

    `CONDUIT_DEBUG=1` shows the traceback as well.
    """
    output = Output()
    if os.environ.get("CONDUIT_DEBUG", "") not in ("", "0"):
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        output.error("interrupted; finished pages are kept")
        return _INTERRUPTED
    if isinstance(error, BrokenPipeError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the reader is gone; nothing may be flushed to it
        return 1
    if isinstance(error, TyperException):
        return _words(error, output)
    told = error if isinstance(error, ConduitError) else _raw(error)
    if told is not None:
        output.error(told.message, told.hint)
        return told.exit_code
    output.error(f"unexpected {type(error).__name__}: {error}", "CONDUIT_DEBUG=1 shows where")
    return 1


def _words(error: TyperException, output: Output) -> int:
    """The command line itself makes no sense.

    Typer carries its own copy of click, whose classes are private: they are known by what they have.
    """
    message = getattr(error, "format_message", lambda: str(error))()
    context = getattr(error, "ctx", None)
    code = int(getattr(error, "exit_code", _USAGE))
    hint = f"{context.command_path if context else 'conduit'} --help" if code == _USAGE else None
    output.error(message, hint)
    return code


def _raw(error: BaseException) -> ConduitError | None:
    """A library's own exception as one of ours, where it is clear what it means."""
    package = type(error).__module__.partition(".")[0]
    if package == "lmdb" or package.startswith(("safetensors", "_safetensors")):
        return StoreError(f"a file of the store or of the model is damaged: {error}", "conduit cache verify --fix")
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return StoreError("the disk is full", "conduit cache prune, or another --store")
    if isinstance(error, OSError) and error.filename is not None:
        return ConduitError(f"{error.filename}: {error.strerror}")
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return ConduitError("there is not enough memory", "choose fewer pages with --pages, or a smaller --max-pixels")
    return None
