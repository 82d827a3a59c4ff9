"""`conduit ask`: one question about some documents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from conduit_cli.commands import _options as o
from conduit_cli.commands._setup import Setup, policy_options, requests
from conduit_cli.console.output import Output
from conduit_cli.console.progress import ConsoleListener
from conduit_cli.errors import UsageError
from conduit_cli.reports import Answer
from conduit_cli.units import counted

__all__ = ["ask", "summary"]


def ask(
    path: Annotated[Path, typer.Argument(help="A PDF or picture.", show_default=False)],
    question: Annotated[
        str | None, typer.Argument(help="The question; - reads it from stdin.", show_default=False)
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
    no_stream: Annotated[bool, typer.Option("--no-stream", help="Print the answer when complete.")] = False,
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
    """Answer a question, reusing stored pages and refreshing a budget of their tokens."""
    setup = Setup(model, device, dtype, max_pixels, offline, store, max_size, codec, verify)
    asked = question_text(question)

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
    listener = ConsoleListener(output, stream=not (as_json or no_stream))
    documents = requests([path, *(others or [])], pages, password_file)
    with setup.session(output, listener) as session:
        answer = session.ask(documents, asked, options)
    if as_json:
        output.data(answer.to_dict())
        return
    output.answer("\n" if listener.streamed else f"{answer.answer}\n")
    output.note(summary(answer))


def question_text(question: str | None, command: str = "ask") -> str:
    """The question, from stdin where it is `-`; stdin is read in no other case.

    Raises:
        UsageError: there is none.
    """
    text = sys.stdin.read() if question == "-" else question
    if text is None or not text.strip():
        raise UsageError("there is no question", f"conduit {command} report.pdf 'What is the total?'")
    return text.strip()


def summary(answer: Answer) -> str:
    """One line on how an answer came about."""
    t = answer.tokens
    return (
        f"{counted(len(answer.pages), 'page')}, {t.visual} visual tokens: {t.reused} reused, {t.refreshed} refreshed; "
        f"{t.text} text tokens; first token after {answer.ttft_s:.2f} s; "
        f"{answer.flops_ratio:.1%} of full-prefill FLOPs"
    )
