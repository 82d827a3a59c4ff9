"""Every exception becomes a sentence, a hint and an exit code, in this one place."""

from __future__ import annotations

import os
import sys
import traceback

import click

from conduit_cli.console.output import Output
from conduit_cli.errors import ConduitError

__all__ = ["report"]

_INTERRUPTED = 130


def report(error: BaseException) -> int:
    """Tell the user about an exception; the exit code.

    `CONDUIT_DEBUG=1` shows the traceback as well.
    """
    output = Output()
    if os.environ.get("CONDUIT_DEBUG", "") not in ("", "0"):
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, KeyboardInterrupt | click.Abort):
        output.error("interrupted; finished pages are kept")
        return _INTERRUPTED
    if isinstance(error, BrokenPipeError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the reader is gone; nothing may be flushed to it
        return 1
    if isinstance(error, ConduitError):
        output.error(error.message, error.hint)
        return error.exit_code
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "conduit"
        output.error(error.format_message(), f"{command} --help")
        return 2
    if isinstance(error, click.ClickException):
        output.error(error.format_message())
        return 1
    output.error(f"unexpected {type(error).__name__}: {error}", "CONDUIT_DEBUG=1 shows where")
    return 1
