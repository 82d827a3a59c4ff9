"""`conduit inspect`: where the refresh budget of a question went."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conduit_cli.commands import _options as o
from conduit_cli.commands._setup import Setup, policy_options, requests
from conduit_cli.commands.ask import question_text, summary
from conduit_cli.console.output import Output
from conduit_cli.console.progress import ConsoleListener
from conduit_cli.reports import PageShare

__all__ = ["inspect"]

_COLUMNS = ("document", "page", "tokens", "c", "attention", "budget", "refreshed", "of page")


def inspect(
    path: Annotated[Path, typer.Argument(help="A PDF or picture.", show_default=False)],
    question: Annotated[
        str | None, typer.Argument(help="The question; - reads it from stdin.", show_default=False)
    ] = None,
    ratio: o.Ratio = 0.1,
    policy: o.PolicyName = "conduit",
    lambda_: o.Lambda = None,
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
    asked = question_text(question)

    from conduit_cli.session import AskOptions

    options = AskOptions(
        ratio=ratio,
        policy=policy,
        policy_options=policy_options(lambda_),
        system=system,
        instruction=instruction,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=seed,
    )
    output = Output(as_json=as_json, quiet=quiet)
    documents = requests([path, *(others or [])], pages, password_file)
    with setup.session(output, ConsoleListener(output)) as session:
        answer = session.ask(documents, asked, options)
    if as_json:
        output.data(answer.to_dict())
        return
    output.table(_COLUMNS, [_row(page) for page in answer.pages])
    output.line(f"answer: {answer.answer}")
    output.note(summary(answer))


def _row(page: PageShare) -> tuple[object, ...]:
    return (
        page.document,
        page.page,
        page.tokens,
        "-" if page.coefficient is None else f"{page.coefficient:.2f}",
        "-" if page.attention is None else f"{page.attention:.0%}",
        f"{page.budget_share:.0%}",
        len(page.refreshed),
        f"{page.page_share:.0%}",
    )
