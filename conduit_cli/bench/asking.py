"""A question's pages and prompt, read from the store as an answer reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from conduit_cli.bench.question import Question
from conduit_cli.engine.prompt import Prompt, build_prompt
from conduit_cli.engine.vlm import Message, PageState
from conduit_cli.errors import InputError
from conduit_cli.session.options import AskOptions, DocumentRequest
from conduit_cli.session.pages import PageRef
from conduit_cli.session.session import Session

__all__ = ["CountedState", "bytes_read", "lay_out", "messages", "opened"]


class CountedState:
    """A page's state that counts the bytes of every tensor taken from it; satisfies `PageState`."""

    def __init__(self, state: PageState) -> None:
        self._state = state
        self.meta = state.meta
        self.nbytes = 0

    @property
    def names(self) -> Sequence[str]:
        """Names of the tensors held."""
        return self._state.names

    def tensor(self, name: str) -> Tensor:
        """A whole tensor."""
        return self._counted(self._state.tensor(name))

    def layer(self, name: str, layer: int) -> Tensor:
        """One layer of a stacked tensor."""
        return self._counted(self._state.layer(name, layer))

    def _counted(self, tensor: Tensor) -> Tensor:
        self.nbytes += tensor.nbytes
        return tensor


def bytes_read(prompt: Prompt) -> int:
    """Bytes that were taken so far from the states of a prompt that `lay_out` made."""
    return sum(state.nbytes for state in prompt.states if isinstance(state, CountedState))


@contextmanager
def opened(session: Session, question: Question) -> Iterator[Sequence[PageRef]]:
    """The question's pages, ingested where they are missing and pinned meanwhile.

    Raises:
        InputError: a document or one of its pages can't be read.
    """
    requests = [DocumentRequest(path, question.pages) for path in question.documents]
    # a page that is left out would make another question of it
    with session.conversation(requests, AskOptions(policy="full"), strict=True) as conversation:
        yield conversation.pages


def lay_out(session: Session, question: Question, pages: Sequence[PageRef]) -> Prompt:
    """The prompt over states that are read anew and counted.

    Raises:
        InputError: an entry is damaged or gone.
    """
    states = []
    for ref in pages:
        state = ref.fresh if ref.fresh is not None else session.store.read(ref.key, ref.identity)
        if state is None:
            raise InputError(f"{ref.document.name}, page {ref.number} was damaged in the store", "run it again")
        states.append(CountedState(state))
    return build_prompt(session.model.vlm, messages(question, pages), states)


def messages(question: Question, pages: Sequence[PageRef]) -> list[Message]:
    """The chat of a question: system text, opening, labelled pages, and the question or what replaces it."""
    content: list[dict[str, Any]] = [_text(question.opening)] if question.opening else []
    several = len({id(ref.document) for ref in pages}) > 1
    labels = len(pages) > 1 if question.labels is None else question.labels
    for place, ref in enumerate(pages, 1):
        if labels:
            content.append(_text(f"Page {place if several else ref.number}:"))
        content.append({"type": "image"})
    content.append(_text(question.question if question.after is None else question.after))
    system: list[Message] = []
    if question.system is not None:
        system = [{"role": "system", "content": [_text(question.system)]}]
    return [*system, {"role": "user", "content": content}]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
