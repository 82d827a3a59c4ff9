"""Turn a task into token ids, positions, targets and the places where attention should look."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from PIL import Image
from transformers import PreTrainedTokenizerFast

from samples.mini.page import CELL, Page
from samples.mini.questions import Task

PATCH = CELL // 2
CHANNELS = ("look", "ask", "row", "column")


@dataclass
class Sample:
    """One encoded conversation; `look` and `ask` give a visual cell per token, `row`/`column` pairs of cells."""

    ids: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    look: list[int] = field(default_factory=list)
    ask: list[int] = field(default_factory=list)

    def add(
        self, ids: list[int], learn: bool = False, look: list[int] | None = None, ask: list[int] | None = None
    ) -> None:
        """Append tokens; lists of cells shorter than the tokens are padded with -1."""
        self.ids += ids
        self.targets += ids if learn else [-100] * len(ids)
        for mine, given in ((self.look, look), (self.ask, ask)):
            cells = (given or [])[: len(ids)]
            mine += cells + [-1] * (len(ids) - len(cells))


def encode(task: Task, tok: PreTrainedTokenizerFast) -> Sample:
    """Write a task in the chat template; every token of an answer is learnt."""
    sample = Sample()
    core = tok.backend_tokenizer

    def ids(text: str) -> list[int]:
        return list(core.encode(text, add_special_tokens=False).ids)

    system = f"<|im_start|>system\n{task.system}<|im_end|>\n" if task.system else ""
    sample.add(ids(f"{system}<|im_start|>user\n{task.prefix}"))
    image = ids("<|image_pad|>")
    for k, page in enumerate(task.pages):
        sample.add(ids((f"Page {k + 1}:" if task.labels else "") + "<|vision_start|>"))
        sample.add(image * cells(page))
        sample.add(ids("<|vision_end|>"))
    for n, turn in enumerate(task.turns):
        if n:
            sample.add(ids("\n<|im_start|>user\n"))
        sample.add(ids(turn.question), ask=turn.ask)
        sample.add(ids("<|im_end|>\n<|im_start|>assistant\n"))
        sample.add(ids(f"{turn.answer}<|im_end|>"), True, look=turn.look)
    return sample


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


def bindings(task: Task) -> list[list[tuple[int, list[int]]]]:
    """For rows and for columns: (visual cell of a value, cells of its label)."""
    found: list[list[tuple[int, list[int]]]] = [[], []]
    for k, page in enumerate(task.pages):
        base = k * cells(page)
        for fact in page.facts:
            for axis, label in enumerate(fact.bind_cells):
                goal = sorted({base + c for c in label if c >= 0})
                for cell in sorted({base + c for c in fact.answer.cells if c >= 0}) if goal else []:
                    if goal[0] < cell:
                        found[axis].append((cell, [c for c in goal if c < cell]))
    return found
