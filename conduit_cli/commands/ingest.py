"""`conduit ingest`: prefill pages once and keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conduit_cli.commands import _options as o
from conduit_cli.commands._setup import Setup, requests
from conduit_cli.console.output import Output
from conduit_cli.console.progress import ConsoleListener
from conduit_cli.errors import InputError, StoreError
from conduit_cli.units import counted

__all__ = ["ingest"]


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="PDFs and pictures.", show_default=False)],
    pages: o.PageRange = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first page that fails.")] = False,
    model: o.ModelName = None,
    device: o.Device = "auto",
    dtype: o.Dtype = "auto",
    max_pixels: o.MaxPixels = None,
    codec: o.Codec = "exact",
    store: o.StorePath = None,
    max_size: o.MaxSize = None,
    password_file: o.PasswordFile = None,
    offline: o.Offline = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Render pages, prefill each once, and keep their state on disk."""
    setup = Setup(model, device, dtype, max_pixels, offline, store, max_size, codec)
    output = Output(as_json=as_json, quiet=quiet)
    documents = requests(paths, pages, password_file, pages_of_all=True)
    with setup.session(output, ConsoleListener(output, every_page=True), storing=True) as session:
        report = session.ingest(documents, strict=strict)
    if as_json:
        output.data(report.to_dict())
    else:
        counts = [(name, report.count(name)) for name in ("stored", "present", "rebuilt", "unstored", "failed")]
        told = ", ".join(f"{count} {name}" for name, count in counts if count)
        output.line(f"{counted(len(report.pages), 'page')}: {told}; {report.nbytes} bytes written")
    failed = report.count("failed")
    if failed:
        first = next(page for page in report.pages if page.status == "failed").page
        raise InputError(f"{failed} of {counted(len(report.pages), 'page')} could not be read, the first is {first}")
    if unstored := [page for page in report.pages if page.status == "unstored"]:
        raise StoreError(
            f"{counted(len(unstored), 'page')} could not be stored: {unstored[0].notes[-1]}",
            "make room with conduit cache prune, raise --max-size, or choose another --store DIR",
        )
