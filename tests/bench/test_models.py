"""Models that can't be served under every policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

from tests.bench.conftest import MakeSet
from tests.cli.conftest import Conduit
from tests.families.tiny import MATRIX

_BY_LAYER = ["vlcache", "cacheblend", "cacheblend-budgeted", "kvshare"]


@pytest.fixture(scope="module")
def deepstack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen3-VL, which adds features to visual rows between layers."""
    return MATRIX["qwen3_vl"].save(tmp_path_factory.mktemp("models") / "qwen3")


@pytest.fixture
def one(make_set: MakeSet, tmp_path: Path) -> Path:
    torch.manual_seed(0)
    Image.effect_noise((128, 128), 60).convert("RGB").save(tmp_path / "a.png")
    return make_set({"document": "a.png", "question": "What is it?", "answer": "noise"})


def test_without_names_what_does_not_fit_is_left_out(
    conduit: Conduit, deepstack: Path, one: Path, tmp_path: Path
) -> None:
    words = ["--model", deepstack, "--ratios", "0.5", "--repeats", 0, "--count-flops", 0, "--max-new-tokens", 3]
    ran = conduit("bench", one, *words, "--out", tmp_path / "out")
    assert ran.code == 0
    said = [line for line in ran.err.splitlines() if "left out" in line]
    assert len(said) == 1 and all(name in said[0] for name in [*_BY_LAYER, "drops rows between layers"])
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert list(results["left_out"]) == _BY_LAYER
    assert all("drops rows" in reason for reason in results["left_out"].values())
    ran_policies = {row["policy"] for row in results["cells"]}
    assert {"conduit", "attention", "full", "reuse"} <= ran_policies and not ran_policies & set(_BY_LAYER)


def test_a_named_policy_that_does_not_fit_is_refused_before_any_work(
    conduit: Conduit, deepstack: Path, one: Path, tmp_path: Path
) -> None:
    words = ["--model", deepstack, "--policies", "conduit;kvshare"]
    ran = conduit("bench", one, *words, "--out", tmp_path / "out")
    assert (ran.code, ran.out) == (4, "")
    assert "kvshare drops rows between layers" in ran.err
    assert not (tmp_path / "out").exists()
