"""The whole recipe, from nothing: ``python -m samples.mini.recipe --runs FOLDER --out FOLDER``.

Runs every phase in order, exports and evaluates. Interrupted, the same command continues from the last
checkpoint (one every three minutes). `--scale 0.001` is a rehearsal: the same phases, a few steps each.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from samples.mini.data import PHASES, SMALL
from samples.mini.evaluate import Answerer, ask_samples, held_out, score, table
from samples.mini.export import export
from samples.mini.train import run

# Each phase with the one whose weights it begins with and the one whose vision half it takes.
ORDER = {
    "glyphs": (None, None),
    "vision": (None, "glyphs"),
    "short": (None, None),
    "pages": ("short", None),
    "fit": ("short", "vision"),
    "finish": ("pages", "fit"),
}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("mini-runs"))
    parser.add_argument("--out", type=Path, default=Path("mini-runs/export"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="share of every phase's steps and of the questions")
    given = parser.parse_args()
    torch.set_num_threads(2)
    given.runs.mkdir(parents=True, exist_ok=True)
    for name, sources in ORDER.items():
        init, eyes = (given.runs / f"{source}.pt" if source else None for source in sources)
        phase = replace(PHASES[name], steps=max(1, round(PHASES[name].steps * given.scale)))
        run(phase, given.runs / f"{name}.pt", init, eyes, given.seed, 0.0)
    export(given.runs / "finish.pt", given.out)
    answerer = Answerer(str(given.out))
    print(ask_samples(answerer))
    print(table(score(answerer, held_out(given.seed, SMALL, min(1.0, given.scale)), given.seed)))


if __name__ == "__main__":
    main()
