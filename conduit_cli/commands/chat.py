"""`conduit chat`: questions about the same pages, one a line, with the model kept loaded."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conduit_cli.commands import _options as o
from conduit_cli.commands._setup import Setup, policy_options, requests
from conduit_cli.commands.ask import summary
from conduit_cli.console.output import Output
from conduit_cli.console.progress import ConsoleListener
from conduit_cli.errors import ConduitError, UsageError

if TYPE_CHECKING:
    from conduit_cli.session import Conversation

__all__ = ["chat"]

_HELP = "One question a line. /ratio 0.2 changes the refresh ratio, /quit leaves."


def chat(
    path: Annotated[Path, typer.Argument(help="A PDF or picture.", show_default=False)],
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
    """Answer questions line by line; each sees the earlier turns."""
    setup = Setup(model, device, dtype, max_pixels, offline, store, max_size, codec, verify)

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
    listener = ConsoleListener(output, stream=not as_json)
    documents = requests([path, *(others or [])], pages, password_file)
    with setup.session(output, listener) as session, session.conversation(documents, options) as talk:
        output.note(_HELP)
        _Loop(talk, output, listener).run()


class _Loop:
    def __init__(self, talk: Conversation, output: Output, listener: ConsoleListener) -> None:
        self.talk, self.output, self.listener = talk, output, listener
        self.ratio = talk.options.ratio

    def run(self) -> None:
        while (line := self._read()) is not None:
            if line in ("/quit", "/exit"):
                return
            try:
                if line.startswith("/"):
                    self._command(line)
                elif line:
                    self._ask(line)
            except KeyboardInterrupt:
                self.output.note("\ninterrupted")
            except ConduitError as error:
                self.output.error(error.message, error.hint)

    def _read(self) -> str | None:
        if sys.stdin.isatty() and not self.output.quiet:
            self.output.console.print("> ", end="")
        line = sys.stdin.readline()
        return line.strip() if line else None

    def _command(self, line: str) -> None:
        name, _, value = line.partition(" ")
        if name == "/help":
            self.output.note(_HELP)
        elif name == "/ratio":
            self.ratio = _ratio(value)
            self.output.note(f"ratio {self.ratio:g}")
        else:
            raise UsageError(f"there is no command {name}", _HELP)

    def _ask(self, question: str) -> None:
        self.listener.streamed = False
        answer = self.talk.ask(question, self.ratio)
        if self.output.as_json:
            self.output.data(answer.to_dict())
            return
        self.output.answer("\n")
        self.output.note(summary(answer))


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise UsageError(f"{text.strip() or 'nothing'} is no ratio from 0 to 1", "try: /ratio 0.2")
    return ratio
