"""Exact match on held-out pages: ``python -m samples.mini.evaluate FOLDER [--json FILE]``.

Stock `generate`, greedy, one question a prompt. Half of the prompts see PDF pages that PyMuPDF rasterised,
half the generator's own pixels (scans and screenshots among them). The pages never occur in training.
Below the table: the questions of samples/questions.jsonl, with the whole document and with the answer's page alone.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pymupdf
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

from samples.mini import questions, raster
from samples.mini.data import SMALL
from samples.mini.questions import Task, after

BATCH = 10
COUNTS = {1: 200, 2: 100, 3: 60, 4: 60, 6: 50, 8: 50}


SAMPLES = Path(__file__).parent.parent
Chat = list[dict[str, Any]]


def chat(question: str, count: int, labels: bool, before: str = "", system: str = "") -> Chat:
    """A question about some pages as chat messages."""
    content: list[dict[str, str]] = [{"type": "text", "text": before}] if before else []
    for k in range(count):
        if labels:
            content.append({"type": "text", "text": f"Page {k + 1}:"})
        content.append({"type": "image"})
    content.append({"type": "text", "text": question})
    first = [{"role": "system", "content": system}] if system else []
    return [*first, {"role": "user", "content": content}]


def messages(task: Task) -> Chat:
    """The first turn of a task as chat messages."""
    question = after(task.turns[0]) if task.early else task.turns[0].question
    return chat(question, len(task.pages), task.labels, task.opening, task.system)


class Answerer:
    """A saved folder, asked through stock transformers."""

    def __init__(self, folder: str) -> None:
        self.tok = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
        self.model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()

    @torch.no_grad()
    def __call__(self, chats: list[Chat], images: list[list[Image.Image]]) -> list[str]:
        """Greedy answers to a batch of prompts, padded on the left."""
        seen = self.processor(images=[image for some in images for image in some], return_tensors="pt")
        grids = iter(seen["image_grid_thw"])
        texts = []
        for one in chats:
            first, *rest = self.tok.apply_chat_template(one, add_generation_prompt=True, tokenize=False).split(
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
            tasks.append((count, questions.draw_task(r, count, r.choice(sizes), 1, held_out=True)))
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


def sample_pages(document: str) -> list[Image.Image]:
    """The pages of a sample document, as large as the model sees them."""
    if not document.endswith(".pdf"):
        return [Image.open(SAMPLES / document).convert("RGB")]
    with pymupdf.open(SAMPLES / document) as pdf:
        drawn = [
            sheet.get_pixmap(matrix=pymupdf.Matrix(336 / sheet.rect.width, 224 / sheet.rect.height)) for sheet in pdf
        ]
    return [Image.frombytes("RGB", (p.width, p.height), p.samples) for p in drawn]


def ask_samples(answerer: Answerer) -> str:
    """Ask every question of samples/questions.jsonl twice; a line for each and the sums."""
    lines, sums = [], [0, 0]
    records = [json.loads(line) for line in (SAMPLES / "questions.jsonl").read_text().splitlines()]
    for record in records:
        shown = sample_pages(record["document"])
        only = shown[record["page"] - 1]
        alone = re.sub(r" on page \d+", "", record["question"])
        [whole] = answerer([chat(record["question"], len(shown), len(shown) > 1)], [shown])
        [single] = answerer([chat(alone, 1, False)], [[only]])
        said = [whole.strip(), single.strip()]
        for n in range(2):
            sums[n] += said[n] == record["answer"]
        lines.append(f"{record['question']:40} {record['answer']:12} {said[0]!r:18} {said[1]!r}")
    lines.append(f"samples/questions.jsonl, {len(records)} questions: whole document {sums[0]}, page alone {sums[1]}")
    return "\n".join(lines)


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
    answerer = Answerer(given.folder)
    print(ask_samples(answerer), flush=True)
    rows = score(answerer, tasks, given.seed)
    print(table(rows))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
