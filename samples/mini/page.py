"""Layout of one synthetic page: text runs, the cell of every character, and the facts that can be asked.

A *form* (blocks of labels and value kinds) is drawn up first and filled later, so that several pages can
share their labels and differ in their values, as monthly invoices do.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from samples.mini import fonts, words

CELL = 28
HELD_OUT_OF = 16  # one page in 16, by the hash of its text, is never emitted for training
Make = Callable[[random.Random], str]


@dataclass(frozen=True)
class Run:
    """A piece of text in one font: the pen of every character, the cell that holds its centre, its number in that cell.

    Cell and number (`slots`) are -1 where the centre lies off the page; the number also for a run's last blank.
    `bins` says more roughly where in the cell: two halves of seven columns.
    """

    text: str
    font: str
    size: int
    baseline: float
    pens: list[float]
    cells: list[int]
    slots: list[int]
    bins: list[int]
    end: float


@dataclass(frozen=True)
class Fact:
    """Something that can be asked: the subject, the answer, and where both stand."""

    kind: str
    subject: str
    answer: Run
    label_cells: list[int]  # per character of the subject
    bind_cells: tuple[list[int], list[int]]  # row label and column header


@dataclass
class Page:
    """One page: its size, runs, text lines and facts."""

    width: int
    height: int
    family: tuple[str, str]
    size: int
    hinted: bool
    title: str | None = None
    runs: list[Run] = field(default_factory=list)
    lines: list[list[Run]] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    rules: list[tuple[int, int, int]] = field(default_factory=list)  # x0, x1, y
    filled: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # characters in every cell

    @property
    def columns(self) -> int:
        """Cells in a row."""
        return self.width // CELL

    def held_out(self) -> bool:
        """Whether the page belongs to the evaluation: a hash of its whole text decides."""
        text = "\n".join(" ".join(run.text for run in line) for line in self.lines)
        return hashlib.sha256(text.encode()).digest()[0] % HELD_OUT_OF == 0

    def put(self, x: float, baseline: float, text: str, bold: bool = False) -> Run:
        """Place a text and note the cell of each character."""
        name = self.family[bold]
        row, middle = divmod(baseline - 0.33 * self.size, CELL)
        pens, cells, slots, bins = [], [], [], []
        for i, width in enumerate(self.advances(text, bold)):
            column, left = divmod(x + width / 2, CELL)
            inside = row < self.height // CELL and column < self.columns
            pens.append(x)
            cells.append(int(row * self.columns + column) if inside else -1)
            bins.append(int(middle // 14 * 7 + left // 4))
            seen = inside and (text[i] != " " or not text[i:].isspace() or text[:i].endswith(":"))
            slots.append(self.filled[cells[-1]] if seen else -1)
            self.filled[cells[-1]] += seen
            x += width
        run = Run(text, name, self.size, baseline, pens, cells, slots, bins, x)
        self.runs.append(run)
        return run

    def advances(self, text: str, bold: bool) -> list[float]:
        """Widths of the characters."""
        name = self.family[bold]
        if self.hinted:
            face = fonts.face(name, self.size)
            return [face.getlength(c) for c in text]
        return fonts.advances(name, self.size, text)

    def fits(self, text: str, x: float, bold: bool = False, limit: float = 0) -> bool:
        """Whether a text placed at x ends before the limit (the right margin by default)."""
        return x + sum(self.advances(text, bold)) <= (limit or self.width - 4)


@dataclass(frozen=True)
class Form:
    """What a page shows, without its values."""

    title: Make | None
    blocks: list[tuple[str, list[tuple[str, Make]], list[str]]]  # kind, (label, value) pairs, column heads


def draw_form(r: random.Random) -> Form:
    """Draw up a form: a title and one or two blocks of label lines, a table, or sentences."""
    blocks: list[tuple[str, list[tuple[str, Make]], list[str]]] = []
    for _ in range(r.choice([1, 2, 2, 3])):
        kind = r.choices(["pairs", "table", "sentences"], [0.55, 0.3, 0.15])[0]
        if kind == "table":
            count = r.choice([1, 2, 2, 2, 3])
            heads = r.choice(
                [r.sample(["Q1", "Q2", "Q3", "Q4"], count), r.sample(words.MONTHS, count), _heads(r, count)]
            )
            rows = {r.choice([r.choice(words.CITIES), r.choice(words.ITEMS), r.choice(words.NAMES)]) for _ in range(6)}
            blocks.append((kind, [(row, words.number) for row in _shuffled(r, rows)], heads))
        else:
            labels = {words.label(r) for _ in range(r.randint(2, 7))}
            pairs: list[tuple[str, Make]] = [(text, words.value_kind(r)) for text in _shuffled(r, labels)]
            blocks.append((kind, pairs, []))
    return Form(words.title if r.random() < 0.85 else None, blocks)


def _shuffled(r: random.Random, texts: set[str]) -> list[str]:
    """In an order that depends on the generator alone, not on the hashes of strings."""
    return sorted(sorted(texts), key=lambda _: r.random())


def _heads(r: random.Random, count: int) -> list[str]:
    if r.random() < 0.5:
        first = r.randint(1995, 2030)
        return [str(first + i) for i in range(count)]
    return r.sample(["Price", "Units", "Cost", "Stock", "Sales", "Rate", "Jobs", "Size", "Hours"], count)


def fill(r: random.Random, form: Form, width: int, height: int) -> Page:
    """Draw a page of a form with fresh values; what does not fit is left out."""
    page = Page(width, height, r.choice(fonts.families()), r.randint(22, 28), r.random() < 0.2)
    painter = _Painter(r, page)
    if form.title is not None:
        painter.title(form.title(r))
    for kind, pairs, heads in form.blocks:
        if kind == "table":
            painter.table(pairs, heads)
        elif kind == "pairs":
            painter.pairs(pairs)
        else:
            painter.sentences(pairs)
    return page


class _Painter:
    """Writes blocks on a page from top to bottom."""

    def __init__(self, r: random.Random, page: Page) -> None:
        self.r, self.page = r, page
        self.pitch = page.size + r.randint(9, 18)
        self.x = float(r.randint(6, 24))
        self.y = page.size + r.randint(6, 22)
        self.used: set[str] = set()

    def room(self) -> bool:
        return self.y + 5 < self.page.height

    def title(self, text: str) -> None:
        if not self.page.fits(text, self.x, True):
            return
        run = self.page.put(self.x, self.y, text, True)
        self.page.title = text
        self.page.lines.append([run])
        self.page.facts.append(Fact("title", "title", run, [], ([], [])))
        self.y += self.pitch + self.r.randint(0, 8)

    def pairs(self, pairs: list[tuple[str, Make]]) -> None:
        r, page = self.r, self.page
        separator = r.choice([": ", ": ", ": ", "  ", " - "])
        column = self.x + r.randint(120, 180) if r.random() < 0.3 else 0.0
        bold = r.random() < 0.25
        for text, make in pairs:
            shown = text + (":" if column and separator == ": " else "" if column else separator)
            start = column or self.x + sum(page.advances(shown, bold))
            value = make(r)
            taken = not self.room() or text.lower() in self.used
            if taken or not page.fits(value, start) or (column and not page.fits(shown, self.x, bold, column - 5)):
                continue
            self.used.add(text.lower())
            name, answer = page.put(self.x, self.y, shown, bold), page.put(start, self.y, value)
            cells = name.cells[: len(text)]
            page.lines.append([name, answer])
            page.facts.append(Fact("label", text, answer, cells, (cells, [])))
            self.y += self.pitch

    def table(self, rows: list[tuple[str, Make]], heads: list[str]) -> None:
        r, page = self.r, self.page
        first = r.randint(95, 130)
        step = (page.width - self.x - first - 4) / len(heads)
        starts = [self.x + first + i * step for i in range(len(heads))]
        if self.y + self.pitch + 5 >= page.height or not all(
            page.fits(h, s, True, s + step - 5) for h, s in zip(heads, starts, strict=True)
        ):
            return
        tops = [page.put(s, self.y, h, True) for h, s in zip(heads, starts, strict=True)]
        corner = r.choice(["", "", "Item", "City", "Name"])
        page.lines.append([page.put(self.x, self.y, corner, True), *tops] if corner else tops)
        if r.random() < 0.4:
            page.rules.append((int(self.x), page.width - 8, int(self.y + 5)))
        self.y += self.pitch
        for text, _ in rows:
            self.row(text, heads, tops, starts, step)

    def row(self, text: str, heads: list[str], tops: list[Run], starts: list[float], step: float) -> None:
        """One row of a table, and its facts."""
        page = self.page
        values = [words.number(self.r) for _ in heads]
        fit = all(page.fits(v, s, False, s + step - 5) for v, s in zip(values, starts, strict=True))
        if not self.room() or text.lower() in self.used or not fit or not page.fits(text, self.x, False, starts[0] - 5):
            return
        self.used.add(text.lower())
        left = page.put(self.x, self.y, text)
        runs = [page.put(s, self.y, v) for v, s in zip(values, starts, strict=True)]
        page.lines.append([left, *runs])
        for head, top, run in zip(heads, tops, runs, strict=True):
            cells = [*top.cells, -1, -1, -1, -1, -1, *left.cells]
            page.facts.append(Fact("cell", f"{head} for {text}", run, cells, (left.cells, top.cells)))
        self.y += self.pitch

    def sentences(self, pairs: list[tuple[str, Make]]) -> None:
        r, page = self.r, self.page
        for text, make in pairs[:3]:
            value = make(r)
            before, after = f"The {text.lower()} {r.choice(['is', 'was'])} ", "."
            start = self.x + sum(page.advances(before, False))
            if not self.room() or text.lower() in self.used or not page.fits(value + after, start):
                continue
            self.used.add(text.lower())
            lead = page.put(self.x, self.y, before)
            answer = page.put(start, self.y, value)
            end = page.put(answer.pens[-1] + page.advances(value[-1], False)[0], self.y, after)
            cells = lead.cells[4 : 4 + len(text)]
            page.lines.append([lead, answer, end])
            page.facts.append(Fact("sentence", text, answer, cells, (cells, [])))
            self.y += self.pitch
