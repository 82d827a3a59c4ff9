"""`conduit models`: which model is used, and choosing another."""

from __future__ import annotations

from typing import Annotated

import typer

from conduit_cli.commands import _options as o
from conduit_cli.console.output import Output
from conduit_cli.models.names import BUNDLED, choose_model, resolve_model_name

__all__ = ["app"]

app = typer.Typer(help="Show or choose the model.", invoke_without_command=True)


@app.callback()
def _default(context: typer.Context, as_json: o.Json = False) -> None:
    """Show which model is used, and why."""
    if context.invoked_subcommand is None:
        _show(as_json)


@app.command("list")
def list_(as_json: o.Json = False) -> None:
    """Show which model is used, and the types that are served."""
    _show(as_json)


@app.command()
def use(
    name: Annotated[str | None, typer.Argument(help="Hub name or local folder.", show_default=False)] = None,
    unset: Annotated[bool, typer.Option("--unset", help="Go back to the bundled model.")] = False,
) -> None:
    """Choose the model that is used from now on."""
    if (name is None) != unset:
        raise typer.BadParameter("give a name, or --unset")
    path = choose_model(None if unset or name == BUNDLED else name)
    Output().note(f"saved in {path}")


def _show(as_json: bool) -> None:
    from conduit_cli.families import model_types

    name, origin = resolve_model_name(None)
    output = Output(as_json=as_json)
    if as_json:
        output.data({"model": name, "chosen_by": origin, "types": model_types()})
        return
    why = {"environment": "CONDUIT_MODEL", "config": "conduit models use", "bundled": "the default"}
    output.line(f"model: {name} (chosen by {why.get(origin, origin)})")
    output.line(f"types that are served: {', '.join(model_types())}")
