"""The whole recipe, from nothing: ``python -m samples.mini.recipe --runs FOLDER --out FOLDER``.

Runs every phase in order, exports and evaluates. Interrupted, the same command continues from the last
checkpoint (one every three minutes).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from samples.mini.data import PHASES, SMALL
from samples.mini.evaluate import Answerer, held_out, score, table
from samples.mini.export import export
from samples.mini.train import run


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("mini-runs"))
    parser.add_argument("--out", type=Path, default=Path("mini-runs/export"))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(2)
    given.runs.mkdir(parents=True, exist_ok=True)
    last: Path | None = None
    for name, phase in PHASES.items():
        checkpoint = given.runs / f"{name}.pt"
        run(phase, checkpoint, last, given.seed, 0.0)
        last = checkpoint
    assert last is not None
    export(last, given.out)
    print(table(score(Answerer(str(given.out)), held_out(given.seed, SMALL, 1.0), given.seed)))


if __name__ == "__main__":
    main()
