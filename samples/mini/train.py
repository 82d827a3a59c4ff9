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
from safetensors.torch import load_file
from torch import nn
from torch.utils.data import DataLoader
from transformers import AutoModelForImageTextToText

from samples.mini import data, fastpath, model
from samples.mini.data import PHASES, Batch, Phase

Tensor = torch.Tensor
# Heads that are told where to look: (channel, layer, head).
HEADS = [
    ("page", 1, 0),
    ("title", 1, 2),
    ("row", 2, 0),
    ("column", 2, 2),
    ("ask", 3, 0),
    ("subject", 4, 0),
    ("scope", 4, 2),
    ("look", 5, 0),
    ("look", 6, 0),
    ("look", 7, 0),
]
PLACE_LAYER = 7  # after it the number of an answer's next character in its cell should be known
TRAINING_HEADS = Path(__file__).parent / "heads.safetensors"
"""Of the bundled model, in bf16: what names characters in training, and nothing that answers a question."""
EYES = ("vlm.model.visual.", "head.", "glyphs.")
SAVE_EVERY = 180.0
CODES = len(data.CHAR_ID) + 1


class Reader(nn.Module):
    """The model and what only training needs.

    `head` names the characters of a cell from its feature, `glyphs` those of its bins; `table` and `letter` do the
    reverse: the sum of their rows for a cell's characters stands in for the feature where the language half trains
    without pictures; `place` tells which of its cell's characters an answer's next one is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tok, self.vlm = model.build()
        self.head = nn.Linear(model.HIDDEN, data.SLOTS * CODES)
        self.glyphs = nn.Linear(model.HIDDEN, data.BINS * CODES)
        self.table = nn.EmbeddingBag(data.SLOTS * CODES, model.HIDDEN, mode="sum", padding_idx=0)
        self.letter = nn.EmbeddingBag(CODES, model.HIDDEN, mode="sum", padding_idx=0)
        nn.init.normal_(self.table.weight, std=0.3)
        nn.init.normal_(self.letter.weight, std=0.3)
        self.place = nn.Linear(model.HIDDEN, data.SLOTS)
        self.image = int(self.tok.convert_tokens_to_ids("<|image_pad|>"))
        self.vlm.model.language_model.layers[PLACE_LAYER].register_forward_hook(self._keep)
        self.kept: Tensor | None = None

    def _keep(self, module: nn.Module, given: Any, out: Tensor) -> None:
        self.kept = out

    def table_features(self, chars: Tensor) -> Tensor:
        """What stands in for the merger's output: a sum of codes of the cell's characters."""
        index = torch.where(chars > 0, chars + torch.arange(data.SLOTS) * CODES, 0)
        features: Tensor = self.table(index) + self.letter(chars)
        return features

    def features(self, batch: Batch, learn: bool) -> Tensor:
        """The merger's output for every cell."""
        assert batch.patches is not None and batch.grid is not None
        with torch.set_grad_enabled(learn):
            out: Tensor = self.vlm.model.visual(batch.patches.to(torch.bfloat16), grid_thw=batch.grid).pooler_output
        return out

    def char_loss(self, features: Tensor, chars: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the characters of each cell and of their end; the share of cells with text read right."""
        logits = self.head(features).float().view(-1, data.SLOTS, CODES)
        some = chars[:, :1] > 0
        ends = torch.cat([some, chars[:, :-1] > 0], 1) & some
        weight = torch.where((chars > 0) | ends, 1.0, 0.1)
        loss = (F.cross_entropy(logits.flatten(0, 1), chars.flatten(), reduction="none") * weight.flatten()).sum()
        right = (logits.argmax(-1) == chars).all(1)
        return loss / weight.sum(), right[some[:, 0]].float().mean()

    def glyph_loss(self, features: Tensor, chars: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the character of each bin, blanks weighted down; the share of characters read right."""
        logits = self.glyphs(features).float().view(-1, CODES)
        goal = chars.flatten()
        weight = torch.where(goal > 0, 1.0, 0.15)
        loss = (F.cross_entropy(logits, goal, reduction="none") * weight).sum() / weight.sum()
        return loss, (logits.argmax(-1) == goal)[goal > 0].float().mean()

    def text_losses(self, features: Tensor, batch: Batch, weight: float) -> tuple[Tensor, dict[str, float]]:
        """Cross-entropy of the answers' characters, and of where to look with its weight."""
        assert batch.ids is not None and batch.targets is not None and batch.slots is not None and batch.aims
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
        total = F.cross_entropy(logits, goal[learnt])
        right = (logits.argmax(-1) == goal[learnt]).float()
        first = (batch.targets[:, :-1] == -100)[learnt]
        seen = {"lm": total.item(), "acc": right.mean().item(), "first": right[first].mean().item()}
        if weight:
            assert self.kept is not None
            known = batch.slots >= 0
            places = self.place(self.kept[known]).float()
            total = total + 0.5 * weight * F.cross_entropy(places, batch.slots[known])
            seen["slot"] = (places.argmax(-1) == batch.slots[known]).float().mean().item()
            for channel, layer, head in HEADS:
                loss, hit = fastpath.attention_loss(layer, head, *batch.aims[channel])
                total = total + weight * loss
                if len(batch.aims[channel][0]):
                    seen[f"{channel}{layer}"] = float(hit)
        return total, seen


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
    if phase.eyes in ("none", "table"):
        features = reader.table_features(batch.chars)
        return reader.text_losses(features if phase.eyes == "none" else features.detach(), batch, phase.pointers)
    features = reader.features(batch, phase.eyes != "frozen")
    if phase.eyes == "fit":
        goal = reader.table_features(batch.chars).detach()
        far = F.mse_loss(features.float(), goal.float()) / goal.float().var()
        known, most = reader.char_loss(goal, batch.chars)
        loss, read = reader.char_loss(features, batch.chars)
        return far + loss + known, {"far": far.item(), "loss": loss.item(), "ocr": read.item(), "most": most.item()}
    total, read = (reader.glyph_loss if phase.eyes == "glyphs" else reader.char_loss)(features, batch.chars)
    seen = {"ocr": read.item(), "loss": total.item()}
    if phase.turns:
        answer, more = reader.text_losses(features, batch, phase.pointers)
        total, seen = answer + (0.1 if phase.eyes == "learn" else 1.0) * total, seen | more
    return total, seen


@torch.no_grad()
def align(reader: Reader, batches: data.Batches, count: int = 10) -> None:
    """Set the merger's last layer to the least-squares map onto the table's codes, from some batches."""
    last = reader.vlm.model.visual.merger.mlp[2]
    inputs: list[Tensor] = []
    hook = last.register_forward_hook(lambda module, given, out: inputs.append(given[0].float()))
    size = last.in_features + 1
    square, cross = torch.zeros(size, size), torch.zeros(size, model.HIDDEN)
    for index in range(count):
        batch = batches[index]
        assert batch.patches is not None and batch.grid is not None
        inputs.clear()
        reader.features(batch, False)
        hidden = inputs[0][fastpath.window_order(batch.grid)]
        hidden = torch.cat([hidden, torch.ones(len(hidden), 1)], 1)
        square += hidden.T @ hidden
        cross += hidden.T @ reader.table_features(batch.chars).float()
    hook.remove()
    solved = torch.linalg.solve(square + 1e-3 * square.diagonal().mean() * torch.eye(size), cross)
    last.weight.copy_(solved[:-1].T)
    last.bias.copy_(solved[-1])


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


def exported(folder: Path) -> dict[str, Any]:
    """A checkpoint from an exported folder, with the heads that only training uses."""
    vlm = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    weights = {f"vlm.{name}": p.detach() for name, p in vlm.named_parameters()}
    heads = {name: p.float() for name, p in load_file(TRAINING_HEADS).items()}
    return {"masters": weights | heads, "step": 0}


def load(path: Path, reader: Reader, eyes: bool | None = None) -> dict[str, Any]:
    """Read a checkpoint's weights into a reader: all, only what sees (`eyes`), or only the rest."""
    state: dict[str, Any] = exported(path) if path.is_dir() else torch.load(path, map_location="cpu")
    mine = reader.state_dict()
    chosen = {n: p for n, p in state["masters"].items() if eyes is None or n.startswith(EYES) == eyes}
    chosen = {n: p for n, p in chosen.items() if mine[n].shape == p.shape}
    reader.load_state_dict(chosen, strict=False)
    return state


def run(phase: Phase, out: Path, init: Path | None, eyes: Path | None, seed: int, minutes: float) -> None:
    """Train a phase to its end, or to a time limit over which the rate then decays."""
    torch.manual_seed(seed)
    reader = Reader()
    fastpath.install(reader.vlm)
    resumed = out.exists()
    state: dict[str, Any] = load(out, reader) if resumed else {}
    if init and not resumed:
        load(init, reader, False if eyes else None)
    if eyes and not resumed:
        load(eyes, reader, True)
    reader.train()
    start = int(state["step"]) if resumed else 0
    batches = data.Batches(phase, reader.tok, seed, start)
    if phase.eyes == "fit" and init != eyes and not resumed:
        reader.to(torch.bfloat16)
        align(reader, batches)
        reader.to(torch.float32)
    masters = Masters(reader, phase.rate)
    reader.to(torch.bfloat16)
    if resumed:
        for optimiser, old in zip(masters.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(old)
    began = saved = time.time()
    mean: dict[str, float] = {}
    for step, batch in enumerate(DataLoader(batches, batch_size=None, num_workers=1, prefetch_factor=4), start):
        done = (time.time() - began) / (60 * minutes) if minutes else step / phase.steps
        if done >= 1:
            break
        loss, seen = losses(reader, batch, phase)
        loss.backward()  # type: ignore[no-untyped-call]
        masters.step(phase.rate * min(1.0, (step - start + 1) / 40) * max(1 - done * (1 - phase.left), 0.01))
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
    parser.add_argument("--init", type=Path, help="checkpoint or exported folder to begin with")
    parser.add_argument("--eyes", type=Path, help="checkpoint or exported folder to take the vision half from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--left", type=float, help="share of the rate that is left at the end")
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after so long instead of the phase's steps")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    phase = PHASES[given.phase]
    if given.rate:
        phase = replace(phase, rate=given.rate)
    if given.left is not None:
        phase = replace(phase, left=given.left)
    run(phase, given.out, given.init, given.eyes, given.seed, given.minutes)


if __name__ == "__main__":
    main()
