"""Batches by step number: the same seed and step always give the same batch, so a resumed run repeats nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

from samples.mini import prompt, questions, raster
from samples.mini.fonts import CHARS
from samples.mini.page import CELL, Page

BINS = 14  # two halves of a cell's height, seven columns of four pixels
CHAR_ID = {c: i + 1 for i, c in enumerate(CHARS)}
Tensor = torch.Tensor


@dataclass(frozen=True)
class Phase:
    """One piece of the curriculum."""

    name: str
    steps: int
    rate: float
    counts: tuple[float, ...]  # weights of 1, 2, 3 ... pages
    sizes: tuple[tuple[int, int], ...]
    tokens: int = 5600  # a batch's size: about so many tokens
    turns: int = 6
    freeze: bool = True  # keep the vision blocks (the merger always learns)
    pointers: float = 0.3  # weight of the attention losses
    chars: float = 0.1  # weight of the character loss; at 0 its head learns, but nothing below it


@dataclass
class Batch:
    """Everything one step needs."""

    patches: Tensor
    grid: Tensor
    chars: Tensor
    ids: Tensor | None = None
    targets: Tensor | None = None
    positions: Tensor | None = None
    channels: dict[str, tuple[Tensor, Tensor]] | None = None


class Batches(Dataset[Batch]):
    """The batches of a phase, by step."""

    def __init__(self, phase: Phase, tok: PreTrainedTokenizerFast, seed: int, text: bool, start: int) -> None:
        self.phase, self.tok, self.seed, self.text, self.start = phase, tok, seed, text, start

    def __len__(self) -> int:
        return max(self.phase.steps - self.start, 0)

    def __getitem__(self, index: int) -> Batch:
        r = random.Random(f"{self.seed}/{self.phase.name}/{index + self.start}")
        size = r.choice(self.phase.sizes)
        if not self.text:
            count = max(4, 2400 // ((size[0] // CELL) * (size[1] // CELL)))
            return images(r, [questions.draw_pages(r, 1, size, False)[0] for _ in range(count)])
        count = r.choices(range(1, len(self.phase.counts) + 1), self.phase.counts)[0]
        cells = (size[0] // CELL) * (size[1] // CELL)
        number = max(2, self.phase.tokens // (cells * count + 30 * self.phase.turns))
        tasks = [questions.draw_task(r, count, size, self.phase.turns) for _ in range(number)]
        batch = images(r, [page for task in tasks for page in task.pages])
        return add_text(batch, tasks, self.tok)


def images(r: random.Random, shown: list[Page]) -> Batch:
    """Pixels and the characters of every cell."""
    patches = np.concatenate([prompt.patches(raster.render(page, r)) for page in shown])
    grid = torch.tensor([[1, p.height // 14, p.width // 14] for p in shown])
    return Batch(torch.from_numpy(patches), grid, torch.from_numpy(np.concatenate([bins(p) for p in shown])))


def bins(page: Page) -> np.ndarray:
    """Which character has its centre in each bin of each cell (0: none)."""
    out = np.zeros((prompt.cells(page), BINS), dtype=np.int64)
    for run in page.runs:
        half = int((run.baseline - 0.33 * run.size) % CELL // 14)
        for char, pen, cell, width in zip(
            run.text, run.pens, run.cells, page.advances(run.text, run.font == page.family[1]), strict=True
        ):
            if cell >= 0 and char != " ":
                out[cell, half * 7 + int((pen + width / 2) % CELL // 4)] = CHAR_ID[char]
    return out


def add_text(batch: Batch, tasks: list[questions.Task], tok: PreTrainedTokenizerFast) -> Batch:
    """Encode the conversations of a batch, padded to one length."""
    image = int(tok.convert_tokens_to_ids("<|image_pad|>"))
    samples = [prompt.encode(task, tok) for task in tasks]
    length = max(len(s.ids) for s in samples)
    ids = torch.zeros(len(samples), length, dtype=torch.long)
    targets = torch.full_like(ids, -100)
    positions = torch.zeros(3, len(samples), length, dtype=torch.long)
    rows: dict[str, list[tuple[int, int]]] = {name: [] for name in prompt.CHANNELS}
    goals: dict[str, list[list[int]]] = {name: [] for name in prompt.CHANNELS}
    for b, (task, sample) in enumerate(zip(tasks, samples, strict=True)):
        n = len(sample.ids)
        ids[b, :n] = torch.tensor(sample.ids)
        targets[b, :n] = torch.tensor(sample.targets)
        positions[:, b, :n] = torch.from_numpy(prompt.positions(sample.ids, task.pages[0], image))
        visual = [i for i, token in enumerate(sample.ids) if token == image]
        aims = [("look", i - 1, [c]) for i, c in enumerate(sample.look) if c >= 0]
        aims += [("ask", i, [c]) for i, c in enumerate(sample.ask) if c >= 0]
        for axis, pairs in zip(("row", "column"), prompt.bindings(task), strict=True):
            aims += [(axis, visual[cell], goal) for cell, goal in pairs]
        for name, at, goal in aims:
            rows[name].append((b, at))
            goals[name].append([visual[c] for c in goal])
    batch.ids, batch.targets, batch.positions = ids, targets, positions
    batch.channels = {name: _dense(rows[name], goals[name], length) for name in rows}
    return batch


def _dense(rows: list[tuple[int, int]], goals: list[list[int]], length: int) -> tuple[Tensor, Tensor]:
    allowed = torch.zeros(len(rows), length, dtype=torch.bool)
    for i, goal in enumerate(goals):
        allowed[i, goal] = True
    return torch.tensor(rows, dtype=torch.long).reshape(-1, 2), allowed


SMALL = ((336, 224),)
LOW = ((336, 112), (336, 168), (336, 224))
# The whole recipe, in order. Each phase starts from the one before it.
PHASES = {
    "vision": Phase("vision", 4000, 1e-3, (1.0,), LOW, freeze=False),
    "short": Phase("short", 3000, 1e-3, (1.0,), LOW[:2]),
    "page": Phase("page", 5000, 1e-3, (0.7, 0.3), SMALL),
    "pages": Phase("pages", 3000, 8e-4, (0.4, 0.25, 0.15, 0.1, 0.1), SMALL, pointers=0.2),
    "finish": Phase(
        "finish", 1500, 6e-4, (0.45, 0.2, 0.1, 0.08, 0.05, 0.12), SMALL, tokens=4000, freeze=False, chars=0.0
    ),
}
