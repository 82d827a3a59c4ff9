"""Finding and loading models: what is refused, and what is said of them without their weights."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from conduit_cli.errors import ModelError
from conduit_cli.models.catalogue import bytes_per_token, describe
from conduit_cli.models.loading import load
from tests.families.conftest import Case
from tests.families.tiny import MATRIX

_FOUR_BIT = {"quant_method": "bitsandbytes", "load_in_4bit": True}


def test_bytes_of_a_token_are_those_that_a_page_takes(case: Case) -> None:
    page = case.pages[0]
    held = sum(tensor.numel() * tensor.element_size() for tensor in page.tensors.values())
    assert bytes_per_token(case.vlm.config, case.vlm, 4) * page.meta["tokens"] == held


def test_the_largest_page_is_within_the_budget(case: Case) -> None:
    known = describe(str(case.folder))
    assert known.problem is None
    assert known.page_pixels is not None
    assert known.page_pixels[0] * known.page_pixels[1] <= case.model.max_pixels
    assert known.page_tokens == case.vlm.tokens(*known.page_pixels)


def test_a_smaller_budget_takes_no_more_tokens(case: Case) -> None:
    small = type(case.vlm).sketch(case.vlm.config, case.vlm.image_processor, case.model.max_pixels // 4)
    width, height = small.fit(210, 297)
    assert small.tokens(width, height) <= case.vlm.tokens(*case.vlm.fit(210, 297))


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        (_FOUR_BIT, "quantized by bitsandbytes", "pip install bitsandbytes"),
        ({"quant_method": "gptq", "bits": 4}, "quantized by 'gptq'", "supported: bitsandbytes"),
    ],
)
def test_packed_weights_need_what_unpacks_them(
    settings: dict[str, object], message: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    absent = {"bitsandbytes"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name in absent else find(name, *a))
    folder = MATRIX["llava"].save(tmp_path)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": settings}), "utf-8")
    with pytest.raises(ModelError, match=message) as caught:
        load(str(folder))
    assert str(caught.value.hint).startswith(hint)


def test_a_folder_with_a_part_missing_is_not_loaded(tmp_path: Path) -> None:
    folder = MATRIX["llava"].save(tmp_path)
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    parts = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}), "utf-8")
    with pytest.raises(ModelError, match=r"model-00002-of-00002\.safetensors is missing"):
        load(str(folder))
