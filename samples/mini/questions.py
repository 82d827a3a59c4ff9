"""Sets of pages and the questions about them, for training and for evaluation."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from samples.mini import page as pages
from samples.mini import words
from samples.mini.page import Fact, Page

ABSENT = "not on these pages"
ASK = ["What is the {}?"] * 5 + ["Give the {}.", "Find the {}.", "{}?"]
SYSTEMS = ["You are a helpful assistant."] * 4 + [
    "",
    "Answer from the pages.",
    "Read the document and answer.",
    "Be brief.",
    "You read reports.",
    "Use only what the pages say.",
]
PREFIXES = [
    "",
    "",
    "",
    "Here are the pages.\n",
    "Look at this document.\n",
    "Read carefully.\n",
    "Document follows.\n",
]


@dataclass(frozen=True)
class Turn:
    """A question and its answer; `look` and `ask` hold the visual cell of each character (-1: none)."""

    question: str
    answer: str
    kind: str
    look: list[int] = field(default_factory=list)
    ask: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Task:
    """A conversation about some pages."""

    pages: list[Page]
    turns: list[Turn]
    system: str
    prefix: str
    labels: bool


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


def draw_task(r: random.Random, count: int, size: tuple[int, int], turns: int, held_out: bool = False) -> Task:
    """Draw a conversation with up to so many turns."""
    shown = draw_pages(r, count, size, held_out)
    cells = (size[0] // pages.CELL) * (size[1] // pages.CELL)
    pool = [(k, fact) for k, page in enumerate(shown) for fact in page.facts]
    drawn = []
    for k, fact in r.sample(pool, min(turns, len(pool))):
        if r.random() < 0.1:
            drawn.append(_absent(r, shown))
        else:
            drawn.append(_present(r, shown, k, fact, cells))
    prefix = f"Question: {drawn[0].question}\n" if r.random() < 0.25 else r.choice(PREFIXES)
    return Task(shown, drawn, r.choice(SYSTEMS), prefix, count > 1 or r.random() < 0.3)


def phrase(r: random.Random, subject: str) -> str:
    """Put a subject into a question."""
    lower = not subject[:2].startswith(("Q1", "Q2", "Q3", "Q4")) and r.random() < 0.75
    text = r.choice(ASK).format(subject[0].lower() + subject[1:] if lower else subject)
    return text[0].upper() + text[1:]


def _present(r: random.Random, shown: list[Page], k: int, fact: Fact, cells: int) -> Turn:
    question, kind = phrase(r, fact.subject), fact.kind
    clash = sum(f.subject.lower() == fact.subject.lower() for page in shown for f in page.facts) > 1
    if len(shown) > 1 and (clash or r.random() < 0.5):
        title = shown[k].title
        unique = title is not None and sum(page.title == title for page in shown) == 1
        if unique and fact.kind != "title" and r.random() < 0.5:
            question, kind = f"{question.rstrip('?.')} in {title}?", f"{kind} in title"
        else:
            question, kind = f"{question.rstrip('?.')} on page {k + 1}?", f"{kind} on page"
    start = question.lower().find(fact.subject.lower())
    ask = [-1] * start + [_shift(c, k, cells) for c in fact.label_cells]
    look = [_shift(c, k, cells) for c in fact.answer.cells]
    return Turn(question, fact.answer.text, kind, look, ask if fact.label_cells else [])


def _shift(cell: int, k: int, cells: int) -> int:
    return k * cells + cell if cell >= 0 else -1


def _absent(r: random.Random, shown: list[Page]) -> Turn:
    known = {f.subject.lower() for page in shown for f in page.facts}
    while True:
        subject = words.label(r)
        if subject.lower() not in known:
            return Turn(phrase(r, subject), ABSENT, "absent")
