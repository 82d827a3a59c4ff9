"""One question of a set, and the set as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conduit_cli.errors import InputError

__all__ = ["Question", "check_documents", "read_questions"]


@dataclass(frozen=True)
class Question:
    """A question about the pages of some documents, and what stands around them when it is asked.

    Attributes:
        name: unique in its set.
        documents: in prompt order.
        answers: accepted answers; empty where none is known.
        answer_pages: where the answer stands: pages of the document or, where there are several documents, counted
            through all of them in order.
        pages: the pages to load, as in `1-4,7`; None for all.
        kind: what the question is of, for tables per kind; several kinds are joined by "; ".
        system, instruction: system text, and text before the pages.
        question_first: the question is also stated before the pages.
        after: what stands after the pages in place of the question.
        labels: whether every page has its number before it; None: where there is more than one.
    """

    name: str
    documents: tuple[Path, ...]
    question: str
    answers: tuple[str, ...] = ()
    answer_pages: tuple[int, ...] = ()
    pages: str | None = None
    kind: str = ""
    system: str | None = None
    instruction: str | None = None
    question_first: bool = False
    after: str | None = None
    labels: bool | None = None

    @property
    def cluster(self) -> str:
        """Questions about the same documents are not independent; they share this."""
        return "\n".join(map(str, self.documents))

    @property
    def opening(self) -> str:
        """The text before the pages."""
        lines = [self.instruction] if self.instruction else []
        if self.question_first:
            lines.append(self.question if self.after is not None else f"Question: {self.question}")
        return "".join(line.rstrip("\n") + "\n" for line in lines)


def read_questions(path: Path) -> list[Question]:
    """A set of JSON lines; documents are named relative to the file.

    Raises:
        InputError: the file can't be read, a line is no question, or there is none.
    """
    try:
        lines = path.read_text("utf-8-sig").split("\n")  # JSON may hold the other line breaks
    except (OSError, ValueError) as error:
        raise InputError(f"{path} can't be read: {getattr(error, 'strerror', None) or error}") from error
    questions = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            questions.append(_question(record, number, path.parent))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"there is no {error}" if isinstance(error, KeyError) else str(error)
            raise InputError(
                f"line {number} of {path} is no question: {what}",
                'a line is like {"document": "report.pdf", "question": "What is the total?", "answer": "12"}',
            ) from error
    if not questions:
        raise InputError(f"there is no question in {path}")
    return questions


def check_documents(questions: Iterable[Question]) -> None:
    """Refuse a set whose documents are not there, before anything is loaded.

    Raises:
        InputError: a document is missing.
    """
    for question in questions:
        for path in question.documents:
            if not path.is_file():
                raise InputError(f"the document {path} of question {question.name} is not there")


def _question(record: Mapping[str, Any], number: int, folder: Path) -> Question:
    named = record.get("documents") or [record["document"]]
    if isinstance(named, str):
        named = [named]
    pages = record.get("pages")
    if pages is not None and len(named) > 1:
        raise ValueError("pages can be chosen of one document only")
    text = _text(record, "question")
    if text is None or not text.strip():
        raise ValueError("the question is empty")
    return Question(
        name=str(record.get("id", number)),
        documents=tuple(folder / str(name) for name in named),
        question=text.strip(),
        answers=tuple(str(a) for a in _listed(record.get("answers", record.get("answer")))),
        answer_pages=tuple(int(p) for p in _listed(record.get("answer_pages", record.get("page")))),
        pages=",".join(str(p) for p in _listed(pages)) or None,
        kind="; ".join(str(k) for k in _listed(record.get("kind"))),
        system=_text(record, "system"),
        instruction=_text(record, "instruction"),
        question_first=bool(_switch(record, "question_first")),
        after=_text(record, "after"),
        labels=_switch(record, "labels"),
    )


def _text(record: Mapping[str, Any], name: str) -> str | None:
    value = record[name] if name == "question" else record.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}, but must be a text")
    return value


def _switch(record: Mapping[str, Any], name: str) -> bool | None:
    value = record.get(name)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}, but must be true or false")
    return value


def _listed(value: Any) -> list[Any]:
    """A value or a list of values as a list."""
    if value is None or value == "":
        return []
    return value if isinstance(value, list) else [value]
