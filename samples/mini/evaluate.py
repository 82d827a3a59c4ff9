"""Exact match on held-out pages: ``python -m samples.mini.evaluate FOLDER [--json FILE]``.

Stock `generate`, greedy, one question a prompt. Half of the prompts see PDF pages that PyMuPDF rasterised,
half the generator's own pixels (scans and screenshots among them). The pages never occur in training.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

from samples.mini import questions, raster
from samples.mini.data import MIXED, SMALL
from samples.mini.questions import Task

COUNTS = {1: 200, 2: 100, 3: 60, 4: 60, 6: 50, 8: 50}


def messages(task: Task) -> list[dict[str, Any]]:
    """The first turn of a task as chat messages."""
    content: list[dict[str, str]] = [{"type": "text", "text": task.prefix}] if task.prefix else []
    for k in range(len(task.pages)):
        if task.labels:
            content.append({"type": "text", "text": f"Page {k + 1}:"})
        content.append({"type": "image"})
    content.append({"type": "text", "text": task.turns[0].question})
    system = [{"role": "system", "content": task.system}] if task.system else []
    return [*system, {"role": "user", "content": content}]


class Answerer:
    """A saved folder, asked through stock transformers."""

    def __init__(self, folder: str) -> None:
        self.tok = AutoTokenizer.from_pretrained(folder)
        self.processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
        self.model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()

    @torch.no_grad()
    def __call__(self, chat: list[dict[str, Any]], images: list[Image.Image]) -> str:
        """Greedy answer."""
        text = self.tok.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        seen = self.processor(images=images, return_tensors="pt")
        pieces = text.split("<|image_pad|>")
        for piece, grid in zip(pieces[1:], seen["image_grid_thw"], strict=True):
            pieces[0] += "<|image_pad|>" * (int(grid.prod()) // 4) + piece
        ids = self.tok(pieces[0], return_tensors="pt", add_special_tokens=False).input_ids
        kinds = (ids == self.model.config.image_token_id).long()
        out = self.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            mm_token_type_ids=kinds,
            max_new_tokens=40,
            do_sample=False,
            **seen,
        )
        return str(self.tok.decode(out[0, ids.shape[1] :], skip_special_tokens=True))


def held_out(seed: int, sizes: tuple[tuple[int, int], ...], scale: float) -> list[tuple[int, Task]]:
    """The evaluation set: (pages, task)."""
    r = random.Random(f"held-out/{seed}")
    tasks = []
    for count, number in COUNTS.items():
        for _ in range(max(1, round(number * scale))):
            task = questions.draw_task(r, count, r.choice(sizes), 1, held_out=True)
            tasks.append((count, replace(task, prefix=r.choice([task.prefix, "Answer the question.\n"]))))
    return tasks


def score(answerer: Answerer, tasks: list[tuple[int, Task]], seed: int) -> list[dict[str, Any]]:
    """Ask everything; one row a question."""
    r = random.Random(seed)
    rows = []
    for n, (count, task) in enumerate(tasks):
        pdf = n % 2 == 0
        images = [raster.render_pdf(p) if pdf else raster.render(p, r) for p in task.pages]
        turn, said = task.turns[0], answerer(messages(task), [image.convert("RGB") for image in images])
        rows.append(
            {
                "pages": count,
                "kind": turn.kind,
                "pixels": "pdf" if pdf else "generator",
                "question": turn.question,
                "answer": turn.answer,
                "said": said,
                "right": said.strip() == turn.answer,
            }
        )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Exact match by pages, kind and pixels."""
    lines = [f"{'':22}    n  exact match"]
    for key in ("pages", "kind", "pixels"):
        groups: dict[Any, list[bool]] = defaultdict(list)
        for row in rows:
            groups[row[key]].append(row["right"])
        for name in sorted(groups):
            right = groups[name]
            lines.append(f"{key + ' ' + str(name):22} {len(right):4}  {sum(right) / len(right):.3f}")
    lines.append(f"{'all':22} {len(rows):4}  {sum(row['right'] for row in rows) / len(rows):.3f}")
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the 520 questions to ask")
    parser.add_argument("--all-sizes", action="store_true", help="also portrait and larger pages")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    tasks = held_out(given.seed, MIXED if given.all_sizes else SMALL, given.scale)
    rows = score(Answerer(given.folder), tasks, given.seed)
    print(table(rows))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
