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
from samples.mini.data import SMALL
from samples.mini.questions import Task

BATCH = 10
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
        self.tok = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
        self.model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()

    @torch.no_grad()
    def __call__(self, chats: list[list[dict[str, Any]]], images: list[list[Image.Image]]) -> list[str]:
        """Greedy answers to a batch of prompts, padded on the left."""
        seen = self.processor(images=[image for some in images for image in some], return_tensors="pt")
        grids = iter(seen["image_grid_thw"])
        texts = []
        for chat in chats:
            first, *rest = self.tok.apply_chat_template(chat, add_generation_prompt=True, tokenize=False).split(
                "<|image_pad|>"
            )
            for piece in rest:
                first += "<|image_pad|>" * (int(next(grids).prod()) // 4) + piece
            texts.append(first)
        coded = self.tok(texts, return_tensors="pt", padding=True, add_special_tokens=False)
        out = self.model.generate(
            input_ids=coded.input_ids,
            attention_mask=coded.attention_mask,
            mm_token_type_ids=(coded.input_ids == self.model.config.image_token_id).long(),
            max_new_tokens=32,
            do_sample=False,
            **seen,
        )
        answers = self.tok.batch_decode(out[:, coded.input_ids.shape[1] :], skip_special_tokens=True)
        return [str(answer) for answer in answers]


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
    """Ask everything, tasks of one number of pages together; one row a question."""
    r = random.Random(seed)
    rows = []
    for start in range(0, len(tasks), BATCH):
        part = tasks[start : start + BATCH]
        images = []
        for n, (_, task) in enumerate(part):
            drawn = [raster.render(p, r) if n % 2 else raster.render_pdf(p) for p in task.pages]
            images.append([image.convert("RGB") for image in drawn])
        said = answerer([messages(task) for _, task in part], images)
        for n, ((count, task), text) in enumerate(zip(part, said, strict=True)):
            turn = task.turns[0]
            row = {"pages": count, "kind": turn.kind, "pixels": "generator" if n % 2 else "pdf"}
            right = text.strip() == turn.answer
            rows.append(row | {"question": turn.question, "answer": turn.answer, "said": text, "right": right})
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
    parser.add_argument("--json", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    tasks = held_out(given.seed, SMALL, given.scale)
    rows = score(Answerer(given.folder), tasks, given.seed)
    print(table(rows))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
