"""Make a checkpoint to train on from an exported folder: ``python -m samples.mini.restore FOLDER FILE``."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from transformers import AutoModelForImageTextToText


def restore(folder: Path, checkpoint: Path) -> None:
    """Write the folder's weights in float32, without optimiser state; its rotary sections are not kept."""
    vlm = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    weights = {f"vlm.{name}": p.detach() for name, p in vlm.named_parameters()}
    torch.save({"masters": weights, "optimisers": [], "step": 0}, checkpoint)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("checkpoint", type=Path)
    given = parser.parse_args()
    restore(given.folder, given.checkpoint)


if __name__ == "__main__":
    main()
