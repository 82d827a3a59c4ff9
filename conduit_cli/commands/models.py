"""`conduit models`: which models there are, which one is used, choosing and checking one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from conduit_cli.commands import _options as o
from conduit_cli.commands._setup import Setup
from conduit_cli.console.output import Output
from conduit_cli.errors import ModelError
from conduit_cli.models.names import BUNDLED, choose_model, resolve_model_name

if TYPE_CHECKING:
    from conduit_cli.models.catalogue import KnownModel
    from conduit_cli.session.selfcheck import Verdict

__all__ = ["app"]

app = typer.Typer(help="Show or choose the model.", invoke_without_command=True)


@app.callback()
def _default(context: typer.Context, as_json: o.Json = False) -> None:
    """Show which model is used, and why."""
    if context.invoked_subcommand is None:
        _show(as_json)


@app.command("list")
def list_(as_json: o.Json = False) -> None:
    """Show which model is used, which are on this machine, and what a page takes of them."""
    _show(as_json)


@app.command()
def use(
    name: Annotated[str | None, typer.Argument(help="Hub name or local folder.", show_default=False)] = None,
    unset: Annotated[bool, typer.Option("--unset", help="Go back to the bundled model.")] = False,
) -> None:
    """Choose the model that is used from now on."""
    if (name is None) != unset:
        raise typer.BadParameter("give a name, or --unset")
    from conduit_cli.models.locate import settled_name

    path = choose_model(None if name is None or name == BUNDLED else settled_name(name))
    Output().note(f"saved in {path}")


@app.command()
def check(
    name: Annotated[
        str | None, typer.Argument(help="Hub name or local folder; the one in use by default.", show_default=False)
    ] = None,
    device: o.Device = "auto",
    dtype: o.Dtype = "auto",
    max_pixels: o.MaxPixels = None,
    store: o.StorePath = None,
    offline: o.Offline = False,
    as_json: o.Json = False,
) -> None:
    """Compare a model, as served here, with its stock classes on a small prompt."""
    setup = Setup(name, device, dtype, max_pixels, offline, store, None, "exact")
    output = Output(as_json=as_json)

    from conduit_cli.session import load_model, open_store_or_scratch
    from conduit_cli.session.selfcheck import check as compare
    from conduit_cli.session.selfcheck import remember

    with open_store_or_scratch(setup.store, on_note=output.note) as opened:
        model = load_model(name, device=device, dtype=dtype, max_pixels=max_pixels, offline=offline)
        verdict = compare(model)
        remember(model, opened, verdict)
    if as_json:
        output.data({"model": model.name, "family": model.family, "dtype": model.dtype, **verdict.to_dict()})
    else:
        output.line(f"{model.name} ({model.family}, {model.dtype}, {model.device}): {_verdict(verdict)}")
    if not verdict.passed:
        raise ModelError(f"{model.name} can't be served: {verdict.problem}", "choose another: conduit models use NAME")


def _verdict(verdict: Verdict) -> str:
    if verdict.difference is None:
        return "failed"
    outcome = "passed" if verdict.passed else "failed"
    return f"{outcome}, largest difference of a logit {verdict.difference:.1e} (at most {verdict.tolerance:.1e})"


def _show(as_json: bool) -> None:
    from conduit_cli.models.catalogue import families, known_models

    name, origin = resolve_model_name(None)
    output = Output(as_json=as_json)
    served = families()
    models = known_models(name)
    if as_json:
        data = {"model": name, "chosen_by": origin, "types": list(served), "families": served}
        output.data({**data, "models": [model.to_dict() for model in models]})
        return
    why = {"environment": "CONDUIT_MODEL", "config": "conduit models use", "bundled": "the default"}
    output.line(f"model: {name} (chosen by {why.get(origin, origin)})")
    output.line(f"families that are served: {', '.join(dict.fromkeys(served.values()))}")
    output.line("")
    columns = ("model", "family", "weights", "dtype", "bytes a token", "largest page", "tokens")
    output.table(columns, [_row(model) for model in models])
    for model in models:
        if model.problem is not None:
            output.note(f"{model.name}: {model.problem}")


def _row(model: KnownModel) -> tuple[str | int, ...]:
    where = "local" if model.local else "missing"
    if model.page_pixels is None:
        return (model.name, "-", where, "-", "-", "-", "-")
    width, height = model.page_pixels
    size = f"{width} x {height}"
    return (
        model.name,
        model.family or "-",
        where,
        model.dtype or "-",
        model.bytes_per_token or 0,
        size,
        model.page_tokens or 0,
    )
