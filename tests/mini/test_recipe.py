"""The bundled model's recipe from nothing to its table, rehearsed with a step a phase."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

ROOT = Path(__file__).parents[2]
PHASES = ["glyphs", "vision", "short", "pages", "fit", "finish"]


def rehearse(folder: Path) -> str:
    """Run the recipe in a folder; what it prints."""
    command = [sys.executable, "-m", "samples.mini.recipe", "--runs", folder, "--out", folder / "export"]
    ran = subprocess.run([*command, "--scale", "0.0003"], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_recipe_runs_to_its_end_and_again_from_where_it_stopped(tmp_path: Path) -> None:
    printed = rehearse(tmp_path)
    assert sorted(path.stem for path in tmp_path.glob("*.pt")) == sorted(PHASES)
    assert "questions: whole document" in printed
    assert "pages 8" in printed
    assert printed.splitlines()[-1].startswith("all ")

    export = tmp_path / "export"
    model = AutoModelForImageTextToText.from_pretrained(export, local_files_only=True)
    assert type(model).__name__ == "Qwen2_5_VLForConditionalGeneration"
    AutoImageProcessor.from_pretrained(export, local_files_only=True)
    assert AutoTokenizer.from_pretrained(export, local_files_only=True).chat_template
    assert sum(path.stat().st_size for path in export.iterdir()) <= 25e6

    weights = load_file(export / "model.safetensors")
    for phase in ("fit", "finish"):  # as if it had been stopped before them
        (tmp_path / f"{phase}.pt").unlink()
    rehearse(tmp_path)
    again = load_file(export / "model.safetensors")
    assert weights.keys() == again.keys()
    assert all(torch.equal(weights[name], again[name]) for name in weights)
