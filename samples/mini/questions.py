"""Sets of pages and the questions about them, for training and for evaluation."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from samples.mini import page as pages
from samples.mini import words
from samples.mini.page import Fact, Page, Run

ABSENT = "not on these pages"
ASK = [
    *["What is the {}?"] * 6,
    *["What is {}?"] * 2,
    "What was the {}?",
    "How much is the {}?",
    "Tell me the {}.",
    "Give the {}.",
    "Find the {}.",
    "{}?",
]
SYSTEMS = [
    *[""] * 5,  # what `conduit ask` gives without --system
    *["You are a helpful assistant."] * 3,
    "Answer from the pages.",
    "Read the document and answer.",
    "Be brief.",
    "You read reports.",
    "Use only what the pages say.",
]
PREFIXES = [
    *[""] * 3,
    "Here are the pages.\n",
    "Look at this document.\n",
    "Read carefully.\n",
    "Document follows.\n",
]
AFTER = ["Answer the question.", "Answer it now."]  # after the pages, where the question stands before them
Place = tuple[int, int, int]  # page, cell, number in it; cell -1: the page's label
NOWHERE: Place = (-1, -1, -1)


@dataclass(frozen=True)
class Turn:
    """A question and its answer.

    `look` holds the place on the pages of each of the answer's characters, `ask` those of each of the question's:
    several where pages share a label.
    From character `scope` on, the question says which page is meant.
    """

    question: str
    answer: str
    kind: str
    look: list[Place] = field(default_factory=list)
    ask: list[list[Place]] = field(default_factory=list)
    scope: int = 1000


@dataclass(frozen=True)
class Task:
    """A conversation about some pages; with `early` its first question stands before them."""

    pages: list[Page]
    turns: list[Turn]
    system: str
    prefix: str
    labels: bool
    early: bool = False

    @property
    def opening(self) -> str:
        """The text before the pages."""
        return self.turns[0].question + "\n" if self.early else self.prefix


def after(turn: Turn) -> str:
    """What stands after the pages where the question stands before them."""
    return AFTER[len(turn.question) % len(AFTER)]


def draw_pages(r: random.Random, count: int, size: tuple[int, int], held_out: bool) -> list[Page]:
    """Draw pages; six sets in ten have near-duplicates, i.e. several pages of one form."""
    alike = r.random() < 0.6
    form = pages.draw_form(r)
    found: list[Page] = []
    for _ in range(10_000):
        if len(found) == count:
            return found
        if not alike or r.random() < 0.3:
            form = pages.draw_form(r)
        page = pages.fill(r, form, *size)
        if len(page.facts) > 1 and page.held_out() == held_out:
            found.append(page)
    raise RuntimeError("no page was accepted")


def draw_task(
    r: random.Random, count: int, size: tuple[int, int], turns: int, held_out: bool = False, read: float = 0.0
) -> Task:
    """Draw a conversation with up to so many turns; a share `read` of them asks for a whole page's text."""
    shown = draw_pages(r, count, size, held_out)
    labels = r.random() < (0.85 if count > 1 else 0.3)
    pool = [(k, fact) for k, page in enumerate(shown) for fact in page.facts]
    wanted: list[Turn | None] = []
    for k, fact in r.sample(pool, min(turns, len(pool))):
        if r.random() < read:
            wanted.append(_whole(shown, k, labels))
        elif r.random() < 0.1:
            wanted.append(_absent(r, shown))
        else:
            wanted.append(_present(r, shown, k, fact, labels))
    drawn = [turn for turn in wanted if turn] or [_absent(r, shown)]
    early = r.random() < 0.12
    prefix = f"Question: {drawn[0].question}\n" if r.random() < 0.2 else r.choice(PREFIXES)
    return Task(shown, drawn, _system(r), prefix, labels, early)


def _system(r: random.Random) -> str:
    if r.random() < 0.1:
        return " ".join(words.word(r) for _ in range(r.randint(2, 8))).capitalize() + "."
    return r.choice(SYSTEMS)


def phrase(r: random.Random, subject: str) -> str:
    """Put a subject into a question."""
    lower = not subject[:2].startswith(("Q1", "Q2", "Q3", "Q4")) and r.random() < 0.75
    text = r.choice(ASK).format(subject[0].lower() + subject[1:] if lower else subject)
    return text[0].upper() + text[1:]


def places(run: Run, k: int) -> list[Place]:
    """Where the characters of a run stand, on page k."""
    return [(k, c, b) if c >= 0 else NOWHERE for c, b in zip(run.cells, run.slots, strict=True)]


def _present(r: random.Random, shown: list[Page], k: int, fact: Fact, labels: bool) -> Turn | None:
    question, kind, scope = phrase(r, fact.subject), fact.kind, 1000
    start = question.lower().find(fact.subject.lower())
    same = [(j, f) for j, page in enumerate(shown) for f in page.facts if f.subject.lower() == fact.subject.lower()]
    ask: list[list[Place]] = [[] for _ in range(start)] + _labels(same, len(fact.label_cells))
    clash = len(same) > 1
    if len(shown) > 1 and (clash or r.random() < 0.5):
        title = shown[k].title
        unique = title is not None and sum(page.title == title for page in shown) == 1
        if title and unique and fact.kind != "title" and (not labels or r.random() < 0.5):
            stem, kind = f"{question.rstrip('?.')} in ", f"{kind} in title"
            question, scope = f"{stem}{title}?", len(stem)
            ask += [[] for _ in range(len(stem) - len(ask))]
            ask += [[place] if place != NOWHERE else [] for place in places(shown[k].lines[0][0], k)]
        elif labels:
            stem, kind = f"{question.rstrip('?.')} on page ", f"{kind} on page"
            question, scope = f"{stem}{k + 1}?", len(stem)
            ask += [[] for _ in range(len(stem) - len(ask))] + [[(k, -1, -1)]]
        elif clash:
            return None
    return Turn(question, fact.answer.text, kind, places(fact.answer, k), ask, scope)


def _labels(facts: list[tuple[int, Fact]], length: int) -> list[list[Place]]:
    """The places of every character of a label, on all pages that have it."""
    return [
        [(k, f.label_cells[i], -1) for k, f in facts if f.label_cells[i:] and f.label_cells[i] >= 0]
        for i in range(length)
    ]


def _whole(shown: list[Page], k: int, labels: bool) -> Turn | None:
    """Ask for everything that stands on a page, line by line."""
    if len(shown) > 1 and not labels:
        return None
    question = f"Read page {k + 1}." if labels else "Read the page."
    ask: list[list[Place]] = [*([] for _ in "Read page "), [(k, -1, -1)]] if labels else []
    text, look = "", []
    for line in shown[k].lines:
        end = 0.0
        for run in line:
            if run.pens[0] > end + 4 and not text.endswith((" ", "\n")) and text:
                text += " "
                look.append(NOWHERE)
            text += run.text
            look += places(run, k)
            end = run.end
        text += "\n"
        look.append(NOWHERE)
    return Turn(question, text[:-1], "read", look[:-1], ask, 0)


def _absent(r: random.Random, shown: list[Page]) -> Turn:
    known = {f.subject.lower() for page in shown for f in page.facts}
    while True:
        subject = words.label(r)
        if subject.lower() not in known:
            return Turn(phrase(r, subject), ABSENT, "absent")
