"""`conduit bench`: policies by ratios over a question set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conduit_cli import policies
from conduit_cli.commands import _options as o
from conduit_cli.commands._setup import Setup
from conduit_cli.console.measuring import MeasuringListener
from conduit_cli.console.output import Output
from conduit_cli.errors import InputError, ModelError, UsageError

if TYPE_CHECKING:
    from conduit_cli.session import Session

__all__ = ["bench"]


def bench(
    questions: Annotated[Path, typer.Argument(help="A question set.", show_default=False)],
    layout: Annotated[
        str, typer.Option("--format", help="conduit, mmlongbench-doc, longdocurl, slidevqa or docvqa.")
    ] = "conduit",
    documents: Annotated[
        Path | None,
        typer.Option("--documents", help="Folder of a public set's documents.", show_default=False),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policies",
            help="a,b,c or 'conduit:lambda=0.5,norm=false;reuse'; may be repeated; all by default.",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", help="A named list of policies: ablations.", show_default=False)
    ] = None,
    ratios: Annotated[str, typer.Option("--ratios", help="Refresh ratios.")] = "0,0.05,0.1,0.2,1",
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, help="Ask only so many questions, drawn by --seed.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the drawing, the intervals and the tests.")] = 0,
    repeats: Annotated[int, typer.Option("--repeats", min=0, help="Timed runs of each; 0 takes no times.")] = 3,
    count_flops: Annotated[
        int, typer.Option("--count-flops", min=0, help="Count FLOPs on so many questions; by formula on the rest.")
    ] = 20,
    timed: Annotated[int, typer.Option("--timed", min=0, help="Take times on so many questions.")] = 20,
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes that share the questions without times.")
    ] = 1,
    diagnostics: Annotated[
        int, typer.Option("--diagnostics", min=0, help="Look at norms and true gains on so many questions.")
    ] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the results; else bench-NAME.", show_default=False)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--fresh", help="Go on with a run that was stopped, or start anew.")
    ] = True,
    max_new_tokens: o.MaxNewTokens = 32,
    model: o.ModelName = None,
    device: o.Device = "auto",
    dtype: o.Dtype = "auto",
    max_pixels: o.MaxPixels = None,
    codec: o.Codec = "exact",
    store: o.StorePath = None,
    max_size: o.MaxSize = None,
    verify: o.Verify = True,
    offline: o.Offline = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Measure quality, cost and allocation of refresh policies over a question set."""
    setup = Setup(model, device, dtype, max_pixels, offline, store, max_size, codec, verify)
    from conduit_cli.bench.contenders import PRESETS, parse_policies, parse_ratios
    from conduit_cli.bench.question import check_documents
    from conduit_cli.bench.readers import read_set

    if preset is not None and preset not in PRESETS:
        raise UsageError(f"there is no preset {preset!r}", f"choose one of: {', '.join(PRESETS)}")
    if max_new_tokens < 1:
        raise UsageError(f"max-new-tokens is {max_new_tokens}, but must be at least 1")
    every = not policy and preset is None
    typed = [",".join(policies.names())] if every else policy
    named = parse_policies(typed) if typed else []
    wanted = parse_ratios(ratios)
    asked = read_set(questions, layout, documents)

    from conduit_cli.bench.plan import Plan, fitting
    from conduit_cli.bench.running import run, sample

    drawn = sample(asked, limit, seed)
    check_documents(drawn)
    output = Output(as_json=as_json, quiet=quiet)
    listener = MeasuringListener(output)
    folder = out or Path(f"bench-{questions.stem}")
    # it refuses what makes no sense
    plan = Plan(named, wanted, repeats, max_new_tokens, seed, count_flops, timed, diagnostics)
    with setup.session(output, listener) as session:
        if preset is not None:
            layers = session.model.vlm.decoder.geometry.layers
            more = [text.format(last=layers - 1, middle=layers // 2, third=layers // 3) for text in PRESETS[preset]]
            plan = replace(plan, contenders=[*named, *parse_policies(more)])
        kept, left_out = fitting(session.model.vlm, plan.contenders)
        if left_out:
            label, why = next(iter(left_out.items()))
            if not every:
                raise ModelError(why, f"leave {label} out of --policies")
            output.note(f"left out: {', '.join(left_out)}; {why}")
            plan = replace(plan, contenders=kept, left_out=left_out)
        results = run(
            session,
            drawn,
            plan,
            folder,
            fresh=not resume,
            on_progress=listener.question,
            workers=workers,
            opener=partial(_of_worker, setup),
        )
    _save(results, folder)
    if as_json:
        output.data(results)
    else:
        _show(results, output)
    output.note(f"results.json, results.csv and results.png are in {folder}")
    if results["failed"]:
        first = results["failed"][0]
        raise InputError(
            f"{len(results['failed'])} of {len(drawn)} questions could not be asked; "
            f"the first, {first['question']}: {first['error']}"
        )


@contextmanager
def _of_worker(setup: Setup) -> Iterator[Session]:
    """The session of a process that says nothing."""
    output = Output(quiet=True)
    with setup.session(output, MeasuringListener(output)) as session:
        yield session


def _save(results: Mapping[str, Any], folder: Path) -> None:
    from conduit_cli.bench.files import write_results
    from conduit_cli.bench.picture import draw

    write_results(results, folder)
    draw(results, folder / "results.png")


def _show(results: Mapping[str, Any], output: Output) -> None:
    """Tables of cells, and how the first policy stands against the others."""
    from conduit_cli.bench.wording import allocation, cost, diagnostics, quality, stages, tests

    for table in (quality, allocation, cost, stages, tests):
        columns, rows = table(results)
        if rows:
            output.table(columns, rows)
            output.line("")
    for line in diagnostics(results):
        output.line(line)
