"""Finding and loading models: what is refused, and what is said of them without their weights."""

from __future__ import annotations

import importlib.util
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def _tampered(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a folder's config."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    change(config)
    (folder / "config.json").write_text(json.dumps(config), "utf-8")


def test_weights_that_are_missing_are_not_made_up(tmp_path: Path) -> None:
    """transformers fills what a checkpoint lacks with random numbers, and only logs it."""
    folder = MATRIX["llava"].save(tmp_path)

    def one_layer_more(config: dict[str, Any]) -> None:
        config["text_config"]["num_hidden_layers"] += 1
        config["text_config"].pop("layer_types", None)

    _tampered(folder, one_layer_more)
    with pytest.raises(ModelError, match=r"are missing, the first is .*layers"):
        load(str(folder))


def test_code_in_a_models_folder_is_neither_run_nor_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    folder = MATRIX["llava"].save(tmp_path)
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass C: pass\n", "utf-8")
    _tampered(folder, lambda config: config.update(model_type="own", auto_map={"AutoConfig": "own.C"}))
    with pytest.raises(ModelError, match="'own' are not supported"):
        load(str(folder))
    assert not (tmp_path / "ran").exists()
    assert capsys.readouterr().out == ""


def test_a_config_that_is_no_config(tmp_path: Path) -> None:
    folder = MATRIX["llava"].save(tmp_path)
    (folder / "config.json").write_text("[1]", "utf-8")
    with pytest.raises(ModelError, match=r"config\.json"):
        load(str(folder))


@pytest.mark.parametrize("template", ["{% if %}", "{{ raise_exception('no') }}", "{{ messages[0].content + 'x' }}"])
def test_a_template_that_fails_is_named(tmp_path: Path, template: str) -> None:
    folder = MATRIX["llava"].save(tmp_path)
    (folder / "chat_template.jinja").write_text(template, "utf-8")
    with pytest.raises(ModelError, match="chat template"):
        load(str(folder))


def test_a_folder_has_one_name_however_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = MATRIX["llava"].save(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    written = ["./model", "model/../model/", str(folder), f"{folder}/"]
    assert len({json.dumps(load(name).identity, sort_keys=True) for name in written}) == 1


def test_another_tokenizer_is_another_model(tmp_path: Path) -> None:
    folder = MATRIX["llava"].save(tmp_path)
    before = load(str(folder)).identity
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    ids = tokenizer["model"]["vocab"]
    ids["U"], ids["Q"] = ids["Q"], ids["U"]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    after = load(str(folder)).identity
    assert after != before
    assert {key for key in before if before[key] != after[key]} == {"context"}
