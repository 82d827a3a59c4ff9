"""Turn a task into token ids, positions, targets and the places where attention should look."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from PIL import Image
from transformers import PreTrainedTokenizerFast

from samples.mini.page import CELL, Page
from samples.mini.questions import NOWHERE, Place, Task, Turn, after

PATCH = CELL // 2
CHANNELS = ("page", "title", "row", "column", "ask", "subject", "scope", "look")


@dataclass
class Sample:
    """One encoded conversation.

    `slots`: which of its cell's characters the next one is; `aims`: (channel, token, tokens to look at).
    """

    ids: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    aims: list[tuple[str, int, list[int]]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # first visual token of every page
    marks: list[int] = field(default_factory=list)  # the token of every page label's number

    def add(self, ids: list[int], learn: bool = False) -> int:
        """Append tokens and tell where they begin."""
        self.ids += ids
        self.targets += ids if learn else [-100] * len(ids)
        self.slots += [-1] * len(ids)
        return len(self.ids) - len(ids)

    def token(self, place: Place) -> int:
        """The token that shows a place."""
        page, cell, _ = place
        return self.marks[page] if cell < 0 else self.starts[page] + cell


class Encoder:
    """Writes tasks in the chat template; every token of an answer is learnt."""

    def __init__(self, tok: PreTrainedTokenizerFast) -> None:
        self.core = tok.backend_tokenizer
        self.image = int(tok.convert_tokens_to_ids("<|image_pad|>"))

    def __call__(self, task: Task) -> Sample:
        sample = Sample()
        system = f"<|im_start|>system\n{task.system}<|im_end|>\n" if task.system else ""
        sample.add(self.ids(f"{system}<|im_start|>user\n"))
        early = self._question(sample, task.opening, task.turns[0], False) if task.early else ([], [])
        if not task.early:
            sample.add(self.ids(task.opening))
        for k, page in enumerate(task.pages):
            if task.labels:
                sample.marks.append(sample.add(self.ids(f"Page {k + 1}:")) + 1)
            sample.add(self.ids("<|vision_start|>"))
            sample.starts.append(sample.add([self.image] * cells(page)))
            sample.add(self.ids("<|vision_end|>"))
        for n, turn in enumerate(task.turns):
            if n:
                sample.add(self.ids("\n<|im_start|>user\n"))
            if task.early and not n:
                sample.add(self.ids(after(turn)))
                asked = early
            else:
                asked = self._question(sample, turn.question, turn, True)
            sample.add(self.ids("<|im_end|>\n<|im_start|>assistant\n"))
            for channel, goal in zip(("subject", "scope"), asked, strict=True):
                if goal:
                    sample.aims.append((channel, len(sample.ids) - 1, goal))
            self._answer(sample, turn.answer, turn.look)
        _bind(sample, task)
        return sample

    def ids(self, text: str) -> list[int]:
        """The tokens of a text."""
        return list(self.core.encode(text, add_special_tokens=False).ids)

    def _question(self, sample: Sample, text: str, turn: Turn, aim: bool) -> tuple[list[int], list[int]]:
        """Add a question; tell the tokens that name its subject, and those that name its page."""
        coded = self.core.encode(text, add_special_tokens=False)
        first = sample.add(list(coded.ids))
        subject: list[int] = []
        scope: list[int] = []
        for at, (char, _) in enumerate(coded.offsets, first):
            if char < len(turn.ask) and turn.ask[char]:
                (scope if char >= turn.scope else subject).append(at)
                if aim:
                    sample.aims.append(("ask", at, [sample.token(place) for place in turn.ask[char]]))
        return subject, scope

    def _answer(self, sample: Sample, text: str, look: list[Place]) -> None:
        coded = self.core.encode(text + "<|im_end|>", add_special_tokens=False)
        first = sample.add(list(coded.ids), True)
        for at, (char, _) in enumerate(coded.offsets, first - 1):
            if char < len(look) and look[char] != NOWHERE:
                sample.aims.append(("look", at, [sample.token(look[char])]))
                sample.slots[at] = look[char][2]


def cells(page: Page) -> int:
    """Visual tokens of a page."""
    return (page.width // CELL) * (page.height // CELL)


def positions(ids: list[int], page: Page, image_token: int) -> np.ndarray:
    """M-RoPE positions [3, tokens]; all pages of a task have one size."""
    rows, columns = page.height // CELL, page.width // CELL
    grid = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    out = np.zeros((3, len(ids)), dtype=np.int64)
    i = at = 0
    while i < len(ids):
        if ids[i] == image_token:
            span = slice(i, i + rows * columns)
            out[0, span] = at
            out[1, span] = at + grid[0].ravel()
            out[2, span] = at + grid[1].ravel()
            i, at = i + rows * columns, at + max(rows, columns)
        else:
            out[:, i] = at
            i, at = i + 1, at + 1
    return out


def patches(image: Image.Image) -> np.ndarray:
    """Grey patches [n, 196] in the processor's order (cell by cell, 2 x 2 patches in each)."""
    a = (np.asarray(image, dtype=np.float32) / 255 - 0.5) / 0.5
    rows, columns = a.shape[0] // CELL, a.shape[1] // CELL
    blocks = a.reshape(rows, 2, PATCH, columns, 2, PATCH).transpose(0, 3, 1, 4, 2, 5)
    return np.ascontiguousarray(blocks.reshape(rows * columns * 4, PATCH * PATCH))


def _bind(sample: Sample, task: Task) -> None:
    """Cells of values look at their row label, column head, title and page label."""
    for k, page in enumerate(task.pages):
        base = sample.starts[k]
        title = page.lines[0][0].cells if page.title else []
        for fact in page.facts:
            values = sorted({base + c for c in fact.answer.cells if c >= 0})
            if sample.marks:
                sample.aims += [("page", cell, [sample.marks[k]]) for cell in values]
            for channel, label in zip(("row", "column", "title"), (*fact.bind_cells, title), strict=True):
                goal = sorted({base + c for c in label if c >= 0})
                for cell in values:
                    if goal and goal[0] < cell and fact.kind != "title":
                        sample.aims.append((channel, cell, [c for c in goal if c < cell]))
