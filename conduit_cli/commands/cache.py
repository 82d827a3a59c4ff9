"""`conduit cache`: what is stored, and making room."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conduit_cli.commands import _options as o
from conduit_cli.console.output import Output
from conduit_cli.errors import UsageError
from conduit_cli.units import counted, parse_age, parse_size

if TYPE_CHECKING:
    from conduit_store import EntryInfo

__all__ = ["app"]

app = typer.Typer(help="Show and tidy the store.", no_args_is_help=True)
DocumentName = Annotated[
    str | None, typer.Option("--document", help="Only pages of this document.", show_default=False)
]
ModelFilter = Annotated[str | None, typer.Option("--model", help="Only pages of this model.", show_default=False)]
OlderThan = Annotated[
    str | None, typer.Option("--older-than", help="Only pages unused for so long, e.g. 30d or 12h.", show_default=False)
]
LargerThan = Annotated[
    str | None, typer.Option("--larger-than", help="Only pages of more than e.g. 10M.", show_default=False)
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")]


@app.command()
def path(store: o.StorePath = None, as_json: o.Json = False) -> None:
    """Print the store's folder."""
    from conduit_cli.session.opening import default_store_path

    folder = str(store or default_store_path())
    output = Output(as_json=as_json)
    output.data({"path": folder}) if as_json else output.line(folder)


@app.command()
def ls(
    document: DocumentName = None,
    model: ModelFilter = None,
    older_than: OlderThan = None,
    larger_than: LargerThan = None,
    store: o.StorePath = None,
    as_json: o.Json = False,
) -> None:
    """List stored pages, least recently used first."""
    output = Output(as_json=as_json)
    with _open(store) as opened:
        rows = opened.select(**_filters(document, model, older_than, larger_than))
    if as_json:
        output.data([_public(row) for row in rows])
        return
    output.table(
        ("document", "page", "model", "codec", "tokens", "MiB", "used", "key"),
        [
            (
                row.meta.get("document", "?"),
                row.meta.get("page", "?"),
                row.identity.get("model_name", "?"),
                row.identity.get("codec", "?"),
                row.meta.get("tokens", 0),
                f"{row.nbytes / 2**20:.1f}",
                datetime.fromtimestamp(row.used).strftime("%Y-%m-%d %H:%M"),
                row.key[:12],
            )
            for row in rows
        ],
    )


@app.command()
def stats(store: o.StorePath = None, as_json: o.Json = False) -> None:
    """Totals, and bytes per page for each model and codec."""
    output = Output(as_json=as_json)
    with _open(store) as opened:
        totals = opened.stats()
    if as_json:
        output.data(asdict(totals))
        return
    output.line(f"{totals.path}: {counted(totals.entries, 'page')}, {totals.nbytes / 2**20:.1f} MiB")
    output.line(
        f"limit {totals.max_size / 2**30:.1f} GiB; {counted(totals.quarantined, 'damaged file')} set aside, "
        f"{counted(totals.outdated, 'page')} of an older format"
    )
    output.table(
        ("model", "codec", "pages", "bytes per page", "bytes per token"),
        [
            (g["model"], g["codec"], g["pages"], g["nbytes"] // g["pages"], g["nbytes"] // max(1, g["tokens"]))
            for g in totals.groups
        ],
    )


@app.command()
def rm(
    document: DocumentName = None,
    model: ModelFilter = None,
    older_than: OlderThan = None,
    larger_than: LargerThan = None,
    everything: Annotated[bool, typer.Option("--all", help="Every page.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    store: o.StorePath = None,
    as_json: o.Json = False,
) -> None:
    """Remove stored pages."""
    filters = _filters(document, model, older_than, larger_than)
    if not (filters or everything):
        raise UsageError("nothing says which pages to remove", "use a filter such as --document NAME, or --all")
    with _open(store) as opened:
        _remove(opened, opened.select(**filters), dry_run, yes, Output(as_json=as_json))


@app.command()
def prune(
    older_than: OlderThan = None,
    to_size: Annotated[
        str | None, typer.Option("--to-size", help="Until so much is left, e.g. 5G.", show_default=False)
    ] = None,
    document: DocumentName = None,
    model: ModelFilter = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    store: o.StorePath = None,
    as_json: o.Json = False,
) -> None:
    """Remove pages that were not used for long, entries of older formats, and damaged files set aside."""
    filters = _filters(document, model, older_than, None)
    if to_size is not None:
        filters["to_size"] = parse_size(to_size)
    output = Output(as_json=as_json)
    with _open(store) as opened:
        plan = opened.prune(dry_run=True, **filters)
        what = _amount(len(plan.entries), plan.nbytes, plan.quarantined)
        if not dry_run:
            _confirm(f"Remove {what}?", needed=bool(plan.nbytes) and not yes)
            plan = opened.prune(**filters)
    if as_json:
        keys = [row.key for row in plan.entries]
        output.data({"dry_run": dry_run, "freed": plan.nbytes, "damaged": plan.quarantined, "keys": keys})
    else:
        output.line(f"would remove {what}" if dry_run else f"removed {what}")


@app.command()
def verify(
    fix: Annotated[bool, typer.Option("--fix", help="Set damaged entries aside.")] = False,
    store: o.StorePath = None,
    as_json: o.Json = False,
) -> None:
    """Check size, header and checksum of every entry."""
    from conduit_cli.errors import StoreError

    output = Output(as_json=as_json)
    with _open(store) as opened:
        verdicts = opened.verify(fix=fix)
    bad = [v for v in verdicts if v.verdict != "ok"]
    if as_json:
        output.data([{"key": v.key, "verdict": v.verdict, "reason": v.reason} for v in verdicts])
    else:
        for verdict in bad:
            output.line(f"{verdict.key[:12]} {verdict.verdict}: {verdict.reason}")
        output.line(f"{counted(len(verdicts), 'page')} checked, {len(bad)} bad{', mended' if fix and bad else ''}")
    if bad and not fix:
        raise StoreError(f"{counted(len(bad), 'stored page')} not sound", "conduit cache verify --fix")


def _open(store: Any) -> Any:
    from conduit_cli.session.opening import open_store

    return open_store(store)


def _filters(
    document: str | None, model: str | None, older_than: str | None, larger_than: str | None
) -> dict[str, Any]:
    """Only the filters that were given, as the store takes them."""
    given = {
        "document": document,
        "model": model,
        "older_than": parse_age(older_than),
        "larger_than": parse_size(larger_than),
    }
    return {name: value for name, value in given.items() if value is not None}


def _remove(opened: Any, rows: Sequence[EntryInfo], dry_run: bool, yes: bool, output: Output) -> None:
    size = sum(row.nbytes for row in rows)
    what = _amount(len(rows), size)
    _confirm(f"Remove {what}?", needed=bool(rows) and not dry_run and not yes)
    freed = 0 if dry_run else opened.remove([row.key for row in rows])
    if output.as_json:
        output.data({"removed": 0 if dry_run else len(rows), "freed": freed, "keys": [r.key for r in rows]})
    else:
        output.line(f"would remove {what}" if dry_run else f"removed {what}")


def _amount(pages: int, nbytes: int, damaged: int = 0) -> str:
    also = f" and {counted(damaged, 'damaged file')}" if damaged else ""
    return f"{counted(pages, 'page')}{also}, {nbytes / 2**20:.1f} MiB"


def _confirm(question: str, *, needed: bool) -> None:
    """Ask before anything goes; without a terminal there is nobody to ask.

    Raises:
        UsageError: nobody can answer.
    """
    if not needed:
        return
    if not sys.stdin.isatty():
        raise UsageError("removing needs a yes, and there is no terminal to ask on", "add --yes")
    if not typer.confirm(question, err=True):
        raise typer.Abort


def _public(row: EntryInfo) -> dict[str, Any]:
    return {
        "key": row.key,
        "document": row.meta.get("document"),
        "page": row.meta.get("page"),
        "tokens": row.meta.get("tokens"),
        "nbytes": row.nbytes,
        "created": row.created,
        "used": row.used,
        "identity": dict(row.identity),
    }
