"""`conduit inspect`: where the refresh budget of a question went."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conduit_cli import policies
from conduit_cli.commands import _options as o
from conduit_cli.commands._setup import Setup, policy_options, requests
from conduit_cli.commands.ask import question_text, summary
from conduit_cli.console.output import Output
from conduit_cli.console.progress import ConsoleListener

if TYPE_CHECKING:
    from conduit_cli.inspection.model import Inspection
    from conduit_cli.session import Conversation

__all__ = ["inspect"]


def inspect(
    path: Annotated[Path, typer.Argument(help="A PDF or picture.", show_default=False)],
    question: Annotated[
        str | None, typer.Argument(help="The question; - reads it from stdin.", show_default=False)
    ] = None,
    png: Annotated[
        Path | None, typer.Option("--png", help="Folder for a picture of each page.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="File for everything in one web page.", show_default=False)
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Also answer by full prefill and by plain reuse.")] = False,
    versus: Annotated[
        str | None,
        typer.Option("--versus", help="A second policy, to see where both agree.", show_default=False),
    ] = None,
    ratio: o.Ratio = 0.1,
    policy: o.PolicyName = "conduit",
    lambda_: o.Lambda = None,
    policy_option: o.PolicyOptions = None,
    pages: o.PageRange = None,
    others: o.Others = None,
    system: o.System = None,
    instruction: o.Instruction = None,
    max_new_tokens: o.MaxNewTokens = 128,
    temperature: o.Temperature = 0.0,
    seed: o.Seed = None,
    model: o.ModelName = None,
    device: o.Device = "auto",
    dtype: o.Dtype = "auto",
    max_pixels: o.MaxPixels = None,
    codec: o.Codec = "exact",
    store: o.StorePath = None,
    max_size: o.MaxSize = None,
    verify: o.Verify = True,
    password_file: o.PasswordFile = None,
    offline: o.Offline = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Answer a question and show, per page, what was refreshed and why."""
    setup = Setup(model, device, dtype, max_pixels, offline, store, max_size, codec, verify)
    asked = question_text(question, "inspect")
    if versus is not None:
        policies.check(versus)

    from conduit_cli.session import AskOptions

    options = AskOptions(
        ratio=ratio,
        policy=policy,
        policy_options=policy_options(lambda_, policy_option),
        system=system,
        instruction=instruction,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=seed,
    )
    output = Output(as_json=as_json, quiet=quiet)
    documents = requests([path, *(others or [])], pages, password_file)
    _check_targets(png, html, [document.path for document in documents])
    with setup.session(output, ConsoleListener(output)) as session:
        from conduit_cli.session.inspecting import inspect_question

        with session.conversation(documents, options) as conversation:
            inspection = inspect_question(conversation, asked, compare=compare, versus=versus)
            _write(conversation, inspection, png, html, output)
    if as_json:
        output.data(inspection.to_dict())
        return
    _show(inspection, output)
    output.note(summary(inspection.answer))


def _check_targets(png: Path | None, html: Path | None, sources: list[Path]) -> None:
    """Refuse what can't be written before a model is loaded."""
    from conduit_cli.inspection.files import check_file, check_folder

    if html is not None:
        check_file(html, sources)
    if png is not None:
        check_folder(png)


def _write(
    conversation: Conversation, inspection: Inspection, png: Path | None, html: Path | None, output: Output
) -> None:
    """The PNGs and the HTML file, where asked for; pages are drawn one at a time."""
    from conduit_cli.session.inspecting import page_picture

    draw = partial(page_picture, conversation, inspection)
    if png is not None:
        from conduit_cli.inspection.png import write_pngs

        count = write_pngs(inspection, draw, png)
        output.note(f"{count} pictures are in {png}")
    if html is not None:
        from conduit_cli.inspection.html import write_html

        write_html(inspection, draw, html)
        output.note(f"open {html} in a browser")


def _show(inspection: Inspection, output: Output) -> None:
    """Table, heat maps and answers, on stdout."""
    from conduit_cli.inspection.table import table
    from conduit_cli.inspection.terminal import heat_maps

    output.show(table(inspection))
    for part in heat_maps(inspection):
        output.show(part)
    output.line("")
    if inspection.versus is not None:
        other, overlap = inspection.versus.answer.policy, inspection.versus.overlap
        output.line(f"overlap with {other}: {overlap:.0%} of what either refreshed")
    for answer in inspection.others:
        output.line(f"{answer.policy}: {answer.answer}")
    output.line(f"answer: {inspection.answer.answer}")
