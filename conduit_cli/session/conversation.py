"""Turns of one conversation about the same pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from conduit_cli.engine.vlm import Message
from conduit_cli.reports import Answer
from conduit_cli.session.options import AskOptions
from conduit_cli.session.pages import PageRef

if TYPE_CHECKING:
    from conduit_cli.session.session import Session

__all__ = ["Conversation", "messages_for"]


@dataclass
class Conversation:
    """Questions about the same pages, each of which sees the earlier turns.

    The pages stay where the first question put them; every turn places them anew, so each may have
    a ratio of its own.
    """

    session: Session
    pages: Sequence[PageRef]
    options: AskOptions
    turns: list[tuple[str, str]] = field(default_factory=list)

    def ask(self, question: str, ratio: float | None = None) -> Answer:
        """Answer one more question.

        Args:
            ratio: for this turn only; None takes the conversation's.
        """
        options = self.options if ratio is None else replace(self.options, ratio=ratio)
        answer = self.session.answer(self.pages, self.turns, question, options)
        self.turns.append((question, answer.answer))
        return answer


def messages_for(
    pages: Sequence[PageRef], turns: Sequence[tuple[str, str]], question: str, options: AskOptions
) -> list[Message]:
    """The chat: system text, instruction, labelled pages, earlier turns, and the question last.

    One page of one document needs no label. The label is the page's own number in its document, so
    that "on page 4" means page 4 also where only pages 4 to 6 were asked about.
    """
    content: list[dict[str, Any]] = []
    if options.instruction:
        content.append(_text(options.instruction.rstrip("\n") + "\n"))
    several = len({id(ref.document) for ref in pages}) > 1
    for ref in pages:
        if several:
            content.append(_text(f"{ref.document.name}, page {ref.number}:"))
        elif len(pages) > 1:
            content.append(_text(f"Page {ref.number}:"))
        content.append({"type": "image"})
    questions = [*(asked for asked, _ in turns), question]
    messages: list[Message] = []
    if options.system is not None:
        messages.append({"role": "system", "content": [_text(options.system)]})
    messages.append({"role": "user", "content": [*content, _text(questions[0])]})
    for (_, answered), following in zip(turns, questions[1:], strict=True):
        messages.append({"role": "assistant", "content": [_text(answered)]})
        messages.append({"role": "user", "content": [_text(following)]})
    return messages


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
