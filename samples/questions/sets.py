"""The four sets: which tasks belong to each, and what changes around the pages when a question is asked.

Pages come from the generator that the bundled model was trained with, but only ever from its held-out part.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from samples.mini import fonts, questions
from samples.mini.page import Page
from samples.mini.questions import Task

__all__ = ["CHANGES", "SETS", "Drawn", "draw_set"]

SIZE = (336, 224)
CHANGES = ("system", "instruction", "labels", "question first")
"""What every question differs in from the prompt under which its pages are stored; one after the other."""


@dataclass(frozen=True)
class Drawn:
    """A task and the one change that is certain; more may come with it."""

    task: Task
    change: str

    def record(self, document: str, number: int) -> dict[str, Any]:
        """The question as a line of a set."""
        task, turn = self.task, self.task.turns[0]
        page = turn.look[0][0] + 1 if turn.look else None
        found: dict[str, Any] = {
            "id": number,
            "documents": [document],
            "question": turn.question,
            "answers": [turn.answer],
            "page": page,
            "kind": [turn.kind, f"changed: {self.change}"],
            "labels": task.labels or self.change == "labels",
        }
        if self.change == "system":
            found["system"] = task.system or "Answer from the pages."
        elif self.change == "instruction":
            found["instruction"] = task.prefix if _plain(task.prefix) else "Here are the pages."
        elif self.change == "question first":
            found["question_first"] = True
            if task.early:
                found["after"] = questions.after(turn)
        return found


def draw_set(name: str, count: int) -> Iterator[Drawn]:
    """So many questions of a set, the same ones each time."""
    accepts = SETS[name]
    r = random.Random(f"questions/{name}")
    with _base_fonts():
        for number in range(count):
            yield Drawn(_accepted(r, accepts), CHANGES[number % len(CHANGES)])


def _accepted(r: random.Random, accepts: Wanted) -> Task:
    while True:
        task = questions.draw_task(r, r.choice(accepts.pages), SIZE, 1, held_out=True)
        turn = task.turns[0]
        if turn.kind not in ("absent", "read") and accepts.fits(task):
            return task


def _plain(prefix: str) -> bool:
    """Whether the text before the pages is an instruction and not the question."""
    return bool(prefix) and not prefix.startswith("Question:")


def _named(task: Task) -> bool:
    """The question says which page, or what it asks for stands on several."""
    return task.turns[0].kind.endswith((" on page", " in title"))


def _alike(task: Task) -> bool:
    """Every page has most of its labels in common with the first one."""
    first, *rest = [_subjects(page) for page in task.pages]
    return all(2 * len(first & other) >= max(len(first), len(other)) for other in rest)


def _subjects(page: Page) -> set[str]:
    return {fact.subject.lower() for fact in page.facts}


@dataclass(frozen=True)
class Wanted:
    """How many pages a task of a set has, and what else makes it one."""

    pages: tuple[int, ...]
    fits: Callable[[Task], bool]


SETS = {
    "single": Wanted((1,), lambda task: True),
    "named": Wanted((2, 3, 4), _named),
    "distractors": Wanted((8,), lambda task: True),
    "duplicates": Wanted((2, 3, 4), lambda task: _named(task) and _alike(task)),
}


@contextmanager
def _base_fonts() -> Iterator[None]:
    """Only the fonts that every PDF reader has, so that no set depends on what a machine has installed."""
    with mock.patch.object(fonts, "families", lambda: list(fonts.BASE14)):
        yield
