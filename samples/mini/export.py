"""Write a checkpoint as a folder that stock transformers loads: ``python -m samples.mini.export CHECKPOINT FOLDER``."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import torch

from samples.mini import model
from samples.mini.train import EYES


def export(checkpoint: Path, folder: Path, eyes: Path | None = None) -> None:
    """Write weights in bf16, configuration, tokenizer with chat template, and preprocessor; then rename."""
    tok, vlm = model.build()
    masters = torch.load(checkpoint, map_location="cpu")["masters"]
    if eyes:
        seen = torch.load(eyes, map_location="cpu")["masters"]
        masters |= {k: v for k, v in seen.items() if k.startswith(EYES)}
    weights = {k.removeprefix("vlm."): v for k, v in masters.items() if k.startswith("vlm.")}
    missing, unexpected = vlm.load_state_dict(weights, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:
        raise ValueError(f"{checkpoint} does not fit the model: {missing} {unexpected}")
    vlm.tie_weights()
    vlm.to(torch.bfloat16)
    vlm.generation_config.eos_token_id = tok.convert_tokens_to_ids("<|im_end|>")
    vlm.generation_config.pad_token_id = tok.convert_tokens_to_ids("<|endoftext|>")
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    vlm.save_pretrained(part)
    tok.save_pretrained(part)
    (part / "preprocessor_config.json").write_text(json.dumps(model.PREPROCESSOR, indent=1) + "\n")
    old = folder.with_name(folder.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    part.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--eyes", type=Path, help="checkpoint to take the vision half from")
    given = parser.parse_args()
    export(given.checkpoint, given.folder, given.eyes)


if __name__ == "__main__":
    main()
