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

SLOTS = 5  # a cell's characters in reading order; more are very rare
BINS = 14  # two halves of a cell's height, seven columns of four pixels
CHAR_ID = {c: i + 1 for i, c in enumerate([*CHARS, " "])}
Tensor = torch.Tensor


@dataclass(frozen=True)
class Phase:
    """One piece of the curriculum."""

    name: str
    steps: int
    rate: float
    sizes: tuple[tuple[int, int], ...]
    tokens: int  # a batch's size: about so many tokens (or cells, without text)
    counts: tuple[float, ...] = (1.0,)  # weights of 1, 2, 3 ... pages
    turns: int = 0  # questions a conversation; 0: pages alone
    read: float = 0.0  # share of turns that ask for a page's whole text
    # Vision: "glyphs", which character has its centre in each bin of a cell; "learn", a cell's characters in order;
    # "none", where a table of characters stands in and learns, or "table", where it is
    # fixed; "fit", where the vision half learns to give what the table gives; "frozen".
    eyes: str = "frozen"
    pointers: float = 0.3  # weight of the attention losses
    left: float = 0.0  # share of the rate that is left at the end of the phase, after a linear decay


@dataclass
class Batch:
    """Everything one step needs."""

    chars: Tensor
    patches: Tensor | None = None
    grid: Tensor | None = None
    ids: Tensor | None = None
    targets: Tensor | None = None
    positions: Tensor | None = None
    slots: Tensor | None = None
    aims: dict[str, tuple[Tensor, Tensor]] | None = None


class Batches(Dataset[Batch]):
    """The batches of a phase, by step."""

    def __init__(self, phase: Phase, tok: PreTrainedTokenizerFast, seed: int, start: int) -> None:
        self.phase, self.seed, self.start = phase, seed, start
        self.encoder = prompt.Encoder(tok)

    def __len__(self) -> int:
        return max(self.phase.steps - self.start, 0)

    def __getitem__(self, index: int) -> Batch:
        phase = self.phase
        r = random.Random(f"{self.seed}/{phase.name}/{index + self.start}")
        size = r.choice(phase.sizes)
        cells = (size[0] // CELL) * (size[1] // CELL)
        if not phase.turns:
            shown = [questions.draw_pages(r, 1, size, False)[0] for _ in range(phase.tokens // cells)]
            return pictures(r, characters(shown, phase.eyes == "glyphs"), shown)
        count = r.choices(range(1, len(phase.counts) + 1), phase.counts)[0]
        number = max(2, phase.tokens // (cells * count + 30 * phase.turns))
        tasks = [questions.draw_task(r, count, size, phase.turns, read=phase.read) for _ in range(number)]
        shown = [page for task in tasks for page in task.pages]
        batch = characters(shown)
        if phase.eyes not in ("none", "table"):
            pictures(r, batch, shown)
        return add_text(batch, tasks, self.encoder)


def pictures(r: random.Random, batch: Batch, shown: list[Page]) -> Batch:
    """Add the pixels of the pages."""
    batch.patches = torch.from_numpy(np.concatenate([prompt.patches(raster.draw(page, r)) for page in shown]))
    batch.grid = torch.tensor([[1, p.height // 14, p.width // 14] for p in shown])
    return batch


def characters(shown: list[Page], binned: bool = False) -> Batch:
    """A batch with the characters of every cell."""
    return Batch(torch.from_numpy(np.concatenate([inside(page, binned) for page in shown])))


def inside(page: Page, binned: bool) -> np.ndarray:
    """The characters with their centre in each cell (0: none), by bin or in reading order."""
    out = np.zeros((prompt.cells(page), BINS if binned else SLOTS), dtype=np.int64)
    for run in page.runs:
        for char, cell, at in zip(run.text, run.cells, run.bins if binned else run.slots, strict=True):
            if cell >= 0 and 0 <= at < out.shape[1] and (char != " " or not binned):
                out[cell, at] = CHAR_ID[char]
    return out


def add_text(batch: Batch, tasks: list[questions.Task], encoder: prompt.Encoder) -> Batch:
    """Encode the conversations of a batch, padded to one length."""
    samples = [encoder(task) for task in tasks]
    length = max(len(s.ids) for s in samples)
    batch.ids = torch.zeros(len(samples), length, dtype=torch.long)
    batch.targets = torch.full_like(batch.ids, -100)
    batch.slots = torch.full_like(batch.ids, -1)
    batch.positions = torch.zeros(3, len(samples), length, dtype=torch.long)
    aims: dict[str, list[tuple[int, int, list[int]]]] = {name: [] for name in prompt.CHANNELS}
    for b, (task, sample) in enumerate(zip(tasks, samples, strict=True)):
        n = len(sample.ids)
        batch.ids[b, :n] = torch.tensor(sample.ids)
        batch.targets[b, :n] = torch.tensor(sample.targets)
        batch.slots[b, :n] = torch.tensor(sample.slots)
        batch.positions[:, b, :n] = torch.from_numpy(prompt.positions(sample.ids, task.pages[0], encoder.image))
        for name, at, goal in sample.aims:
            aims[name].append((b, at, goal))
    batch.aims = {name: _dense(some) for name, some in aims.items()}
    return batch


def _dense(aims: list[tuple[int, int, list[int]]]) -> tuple[Tensor, Tensor]:
    """(sample, token) and the goals of every aim, padded with -1; ordered by sample."""
    width = max((len(goal) for _, _, goal in aims), default=1)
    goals = torch.full((len(aims), width), -1, dtype=torch.long)
    for i, (_, _, goal) in enumerate(aims):
        goals[i, : len(goal)] = torch.tensor(goal)
    return torch.tensor([(b, at) for b, at, _ in aims], dtype=torch.long).reshape(-1, 2), goals


SMALL = ((336, 224),)
SIZES = (*SMALL * 6, (308, 224), (364, 196), (224, 308), (224, 336))
MANY = (0.28, 0.20, 0.13, 0.12, 0.07, 0.07, 0.05, 0.08)
SHORT = ((336, 112), (336, 168))
# The whole recipe, in order. Each phase starts from the one before it.
PHASES = {
    "glyphs": Phase("glyphs", 3000, 1e-3, (*SMALL, *SHORT), 2400, eyes="glyphs"),
    "vision": Phase("vision", 3000, 1e-3, (*SIZES, *SHORT), 2400, eyes="learn"),
    "short": Phase("short", 600, 2e-3, SHORT, 5000, (0.8, 0.2), 6, 0.15, "none", left=1.0),
    "pages": Phase("pages", 6000, 2e-3, (*SHORT * 3, *SIZES), 4000, MANY, 9, 0.1, "table", left=0.4),
    "fit": Phase("fit", 5000, 7e-4, SIZES, 1920, eyes="fit"),
    "finish": Phase("finish", 3000, 1e-3, SIZES, 4000, MANY, 9, 0.06, "frozen", pointers=0.15),
}
