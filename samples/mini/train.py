"""Train one phase: ``python -m samples.mini.train PHASE --out FILE [--init FILE]``.

A checkpoint is written every few minutes; the same command continues from it. It holds float32 masters; the
forward and backward pass run in bf16. Matrices inside blocks are updated by Muon, everything else by AdamW.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from samples.mini import data, fastpath, model
from samples.mini.data import PHASES, Batch, Phase
from samples.mini.fonts import CHARS

Tensor = torch.Tensor
# Heads that are told where to look: (channel, layer, head).
HEADS = [("look", 3, 0), ("look", 4, 0), ("ask", 2, 0), ("row", 1, 0), ("column", 1, 2)]
SAVE_EVERY = 180.0


class Reader(nn.Module):
    """The model and the head that names the characters of a cell."""

    def __init__(self) -> None:
        super().__init__()
        self.tok, self.vlm = model.build()
        self.head = nn.Linear(model.HIDDEN, data.BINS * (len(CHARS) + 1))
        self.image = int(self.tok.convert_tokens_to_ids("<|image_pad|>"))

    def features(self, batch: Batch, freeze: bool) -> Tensor:
        """The merger's output for every cell; with `freeze` only the merger gets gradients."""
        visual = self.vlm.model.visual
        pixels = batch.patches.to(torch.bfloat16)
        if not freeze:
            whole: Tensor = visual(pixels, grid_thw=batch.grid).pooler_output
            return whole
        with torch.no_grad():
            out = visual(pixels, grid_thw=batch.grid)
            index = fastpath.window_order(batch.grid)
        merged: Tensor = visual.merger(out.last_hidden_state)[index]
        return merged

    def char_loss(self, features: Tensor, chars: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the characters of each cell, blanks weighted down; and the share read right."""
        logits = self.head(features).float().view(-1, len(CHARS) + 1)
        goal = chars.view(-1)
        weight = torch.where(goal > 0, 1.0, 0.15)
        loss = (F.cross_entropy(logits, goal, reduction="none") * weight).sum() / weight.sum()
        return loss, (logits.argmax(-1) == goal)[goal > 0].float().mean()

    def text_loss(self, features: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the answers' characters, and the share predicted right."""
        assert batch.ids is not None and batch.targets is not None
        language = self.vlm.model.language_model
        embeds = language.embed_tokens(batch.ids)
        embeds = embeds.masked_scatter((batch.ids == self.image)[..., None], features.to(embeds.dtype))
        hidden = language(
            inputs_embeds=embeds,
            position_ids=batch.positions,
            attention_mask={"full_attention": None},
            use_cache=False,
        ).last_hidden_state
        goal = batch.targets[:, 1:]
        learnt = goal != -100
        logits = self.vlm.lm_head(hidden[:, :-1][learnt]).float()
        return F.cross_entropy(logits, goal[learnt]), (logits.argmax(-1) == goal[learnt]).float().mean()


class Masters:
    """Float32 copies of the bf16 parameters and their two optimisers."""

    def __init__(self, reader: Reader, rate: float) -> None:
        named = list(reader.named_parameters())
        self.live = [p for _, p in named]
        self.copies = [p.detach().clone().float() for p in self.live]
        inside = [".layers." in n or ".blocks." in n or ".merger." in n for n, _ in named]
        matrix = [flag and p.ndim == 2 for flag, p in zip(inside, self.live, strict=True)]
        muon = [p for p, m in zip(self.copies, matrix, strict=True) if m]
        rest = [p for p, m in zip(self.copies, matrix, strict=True) if not m]
        self.optimisers: list[torch.optim.Optimizer] = [
            torch.optim.Muon(muon, lr=rate, weight_decay=0.02, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True),
        ]

    def step(self, rate: float) -> None:
        """Move the gradients to the masters, update them, and copy them back."""
        for p, q in zip(self.live, self.copies, strict=True):
            q.grad = p.grad.float() if p.grad is not None else None
            p.grad = None
        nn.utils.clip_grad_norm_(self.copies, 1.0)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate
            optimiser.step()
        with torch.no_grad():
            for p, q in zip(self.live, self.copies, strict=True):
                p.copy_(q)


def losses(reader: Reader, batch: Batch, phase: Phase) -> tuple[Tensor, dict[str, float]]:
    """The total loss of a batch and what to print."""
    features = reader.features(batch, phase.freeze)
    chars, read = reader.char_loss(features if phase.chars else features.detach(), batch.chars)
    seen = {"ocr": read.item()}
    if batch.ids is None or batch.channels is None:
        return chars, seen | {"loss": chars.item()}
    answer, right = reader.text_loss(features, batch)
    total = answer + (phase.chars or 0.1) * chars
    seen |= {"lm": answer.item(), "acc": right.item()}
    visual = batch.ids == reader.image
    for channel, layer, head in HEADS:
        rows, goals = batch.channels[channel]
        loss, hit = fastpath.attention_loss(layer, head, rows, goals, visual)
        total = total + phase.pointers * loss
        if len(rows):
            seen[f"{channel}{layer}"] = float(hit)
    return total, seen


def save(path: Path, reader: Reader, masters: Masters, step: int) -> None:
    """Write a checkpoint atomically."""
    names = [n for n, _ in reader.named_parameters()]
    state: dict[str, Any] = {
        "masters": dict(zip(names, masters.copies, strict=True)),
        "optimisers": [o.state_dict() for o in masters.optimisers],
        "step": step,
    }
    part = path.with_suffix(".part")
    torch.save(state, part)
    os.replace(part, path)


def load(path: Path, reader: Reader) -> dict[str, Any]:
    """Read a checkpoint's weights into a reader."""
    state: dict[str, Any] = torch.load(path, map_location="cpu")
    reader.load_state_dict(state["masters"], strict=False)
    return state


def run(phase: Phase, out: Path, init: Path | None, seed: int, minutes: float) -> None:
    """Train a phase to its end, or to a time limit over which the rate then decays."""
    torch.manual_seed(seed)
    reader = Reader()
    fastpath.install(reader.vlm)
    resumed = out.exists()
    source = out if resumed else init
    state = load(source, reader) if source else {}
    reader.train()
    masters = Masters(reader, phase.rate)
    reader.to(torch.bfloat16)
    start = int(state["step"]) if resumed else 0
    if resumed:
        for optimiser, old in zip(masters.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(old)
    batches = data.Batches(phase, reader.tok, seed, phase.name != "vision", start)
    began = saved = time.time()
    mean: dict[str, float] = {}
    for step, batch in enumerate(DataLoader(batches, batch_size=None, num_workers=1, prefetch_factor=4), start):
        done = (time.time() - began) / (60 * minutes) if minutes else step / phase.steps
        if done >= 1:
            break
        loss, seen = losses(reader, batch, phase)
        loss.backward()  # type: ignore[no-untyped-call]
        masters.step(phase.rate * min(1.0, (step - start + 1) / 40) * max(1 - done, 0.01))
        for key, value in seen.items():
            mean[key] = value if key not in mean else 0.97 * mean[key] + 0.03 * value
        if step % 20 == 19:
            shown = " ".join(f"{k}={v:.3f}" for k, v in mean.items())
            print(f"{phase.name} {step + 1} {(time.time() - began) / 60:.1f}m {shown}", flush=True)
        if time.time() - saved > SAVE_EVERY:
            save(out, reader, masters, step + 1)
            saved = time.time()
    save(out, reader, masters, phase.steps)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("phase", choices=sorted(PHASES))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--init", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after so long instead of the phase's steps")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    phase = PHASES[given.phase]
    if given.rate:
        phase = replace(phase, rate=given.rate)
    run(phase, given.out, given.init, given.seed, given.minutes)


if __name__ == "__main__":
    main()
