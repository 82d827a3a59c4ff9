"""The command line. Commands import what is heavy inside their functions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from conduit_cli._version import __version__
from conduit_cli.commands import ask, bench, cache, chat, ingest, models
from conduit_cli.commands import inspect as inspection
from conduit_cli.console.failures import report

__all__ = ["app", "entry", "main"]

app = typer.Typer(
    name="conduit",
    help="Ask a local vision-language model many questions about the same pages.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(ingest.ingest)
app.command()(ask.ask)
app.command()(chat.chat)
app.command()(inspection.inspect)
app.command()(bench.bench)
app.add_typer(cache.app, name="cache")
app.add_typer(models.app, name="models")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"conduit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Ask a local vision-language model many questions about the same pages."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code (0 ok, 1 unexpected, 2 usage, 3 input, 4 model, 5 store, 130)."""
    try:
        words = list(argv) if argv is not None else None
        result = app(args=words, prog_name="conduit", standalone_mode=False)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    return result if isinstance(result, int) else 0


def entry() -> None:
    """The `conduit` command."""
    sys.exit(main())
