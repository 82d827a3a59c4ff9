"""What decoders differ in whatever their family: rotary scaling, heads, tied embeddings, windows, dtypes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from conduit_cli import policies
from conduit_cli.engine.decode import decode_step
from conduit_cli.engine.pipeline import serve
from conduit_cli.engine.prefill import build_context, prefill_page
from conduit_cli.engine.prompt import Prompt, build_prompt
from conduit_cli.errors import InputError
from conduit_cli.models.loading import Model, load
from conduit_cli.session.limits import check_length
from tests.engine.stock import chat
from tests.families.conftest import pictures
from tests.families.stock import Stock
from tests.families.tiny import MATRIX, TEXT, Tiny, text_config

_BASE = {"rope_theta": 1e4}
_LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
_MROPE = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("llava", text_config("llama", rope_parameters={"rope_type": "default", "rope_theta": 1e4})),
    "linear": ("llava", text_config("llama", rope_parameters={"rope_type": "linear", "factor": 4.0, **_BASE})),
    "dynamic": ("llava", text_config("llama", rope_parameters={"rope_type": "dynamic", "factor": 2.0, **_BASE})),
    "yarn": (
        "llava",
        text_config(
            "llama",
            rope_parameters={
                "rope_type": "yarn",
                "factor": 4.0,
                "rope_theta": 1e4,
                "original_max_position_embeddings": 64,
            },
        ),
    ),
    "llama3": ("llava", text_config("llama", rope_parameters={"rope_type": "llama3", "rope_theta": 1e4, **_LLAMA3})),
    "m-rope": ("qwen2_5_vl", {**TEXT, "rope_parameters": _MROPE}),
    "multi-head": ("llava", text_config("llama", num_key_value_heads=4)),
    "multi-query": ("llava", text_config("llama", num_key_value_heads=1)),
    "normed keys": ("internvl", text_config("qwen3")),
    "window of all layers": ("llava_next", text_config("mistral", sliding_window=40)),
    "window of some layers": (
        "llava_onevision",
        text_config("qwen2", use_sliding_window=True, sliding_window=40, max_window_layers=1),
    ),
}


def _differences(tiny: Tiny, folder: Path, dtype: torch.dtype = torch.float32) -> tuple[Model, Prompt, float, float]:
    """Largest difference to stock after 16 decoded tokens at r = 1, and at r = 0 under the text of ingest."""
    model = load(str(folder), dtype=str(dtype).removeprefix("torch."))
    images, stock = pictures(tiny), Stock(tiny, folder, dtype)
    pages = [prefill_page(model.vlm, image) for image in images]
    prompt = build_prompt(model.vlm, chat(3, prefix="Look at these pages."), pages)
    served = serve(model.vlm, prompt, policies.create("conduit"), 1.0, room=16)
    tokens = [(37 * step) % 250 for step in range(16)]
    logits = served.logits
    for step, token in enumerate(tokens):
        logits = decode_step(model.vlm, prompt, served.cache, token, step)
    decoded = float((logits - stock.logits(chat(3, prefix="Look at these pages."), images, tokens)).abs().max())
    alone = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Who?"}]}]
    one = build_prompt(model.vlm, alone, pages[:1])
    reused = serve(model.vlm, one, policies.create("reuse"), 0.0).logits
    return model, prompt, decoded, float((reused - stock.logits(alone, images[:1])).abs().max())


def test_deepstack_may_be_as_deep_as_the_decoder(tmp_path: Path) -> None:
    tiny = MATRIX["qwen3_vl"]
    layers = int(tiny.config["text_config"]["num_hidden_layers"])
    vision = {**tiny.config["vision_config"], "depth": layers, "deepstack_visual_indexes": list(range(layers))}
    tiny = replace(tiny, config={**tiny.config, "vision_config": vision})
    _, _, decoded, reused = _differences(tiny, tiny.save(tmp_path))
    assert decoded <= 1e-4
    assert reused <= 1e-4


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_kind_of_decoder_is_exact(variant: str, tmp_path: Path) -> None:
    name, text = VARIANTS[variant]
    tiny = replace(MATRIX[name], config={**MATRIX[name].config, "text_config": text})
    _, _, decoded, reused = _differences(tiny, tiny.save(tmp_path))
    assert decoded <= 1e-4
    assert reused <= 1e-4


@pytest.mark.parametrize("tied", [True, False])
def test_tied_embeddings_or_not(tied: bool, tmp_path: Path) -> None:
    tiny = MATRIX["llava"]
    folder = tiny.save(tmp_path, tie_word_embeddings=tied)
    model, _, decoded, _ = _differences(tiny, folder)
    shared = model.vlm.decoder.lm_head.weight is model.vlm.decoder.text_model.embed_tokens.weight
    assert shared is tied
    assert decoded <= 1e-4


@pytest.mark.parametrize("name", ["qwen3_vl", "llava_onevision", "gemma3"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.06), (torch.float16, 0.01)])
def test_half_precision_is_exact_within_its_own_rounding(
    name: str, dtype: torch.dtype, tolerance: float, tmp_path: Path
) -> None:
    """Both sides round at other places; what float32 shows exactly must hold here up to that."""
    tiny = MATRIX[name]
    model, prompt, decoded, reused = _differences(tiny, tiny.save(tmp_path, dtype), dtype)
    assert model.vlm.decoder.dtype == dtype
    assert prompt.states[0].tensor("keys").dtype == dtype
    scale = float(Stock(tiny, tmp_path, dtype).logits(chat(1), pictures(tiny)[:1]).abs().max())
    assert decoded <= tolerance * scale
    assert reused <= tolerance * scale


@pytest.mark.parametrize(("name", "kind"), [("internvl", "qwen3"), ("gemma3", "gemma3_text")])
def test_keys_are_told_apart_where_a_page_has_as_many_rows_as_heads(name: str, kind: str, tmp_path: Path) -> None:
    """Qwen3 norms keys before their axes are swapped, Gemma 3 after: here both have the same shape."""
    tiny = MATRIX[name]
    square = pictures(replace(tiny, sizes=[(28, 28)] * 3))[0]
    tokens = {"internvl": 4, "gemma3": 16}[name]
    rows = len(build_context(load(str(tiny.save(tmp_path / "few"))).vlm, [{"tokens": tokens}])[0])
    heads = {"num_attention_heads": rows, "num_key_value_heads": rows, "hidden_size": 8 * rows}
    text = {**tiny.config["text_config"], **heads, "model_type": kind}
    model = load(str(replace(tiny, config={**tiny.config, "text_config": text}).save(tmp_path / "many")))
    page = prefill_page(model.vlm, square)
    one = build_prompt(model.vlm, [{"role": "user", "content": [{"type": "image"}]}], [page])
    assert len(build_context(model.vlm, [page.meta["layout"]])[0]) == rows == page.tensors["keys"].shape[1]
    fresh = serve(model.vlm, one, policies.create("conduit"), 1.0).logits
    assert (serve(model.vlm, one, policies.create("reuse"), 0.0).logits - fresh).abs().max() <= 1e-4


def test_gemma_reads_whole_pictures_as_its_processor_does(tmp_path: Path) -> None:
    """Crops that the image processor's file asks for are off in the stock processor."""
    crops = {"do_pan_and_scan": True, "pan_and_scan_min_crop_size": 16, "pan_and_scan_max_num_crops": 3}
    options = {**MATRIX["gemma3"].image_options, **crops, "pan_and_scan_min_ratio_to_activate": 1.2}
    tiny = replace(MATRIX["gemma3"], image_options=options)
    _, prompt, decoded, reused = _differences(tiny, tiny.save(tmp_path))
    assert len(prompt.visual_slots) == 3 * 16
    assert max(decoded, reused) <= 1e-4


def test_dynamic_scaling_is_refused_where_it_would_begin(tmp_path: Path) -> None:
    """Beyond the trained length its frequencies, and so all keys, would depend on the prompt's length."""
    tiny = MATRIX["llava"]
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    text = text_config("llama", max_position_embeddings=100, rope_parameters=rope)
    model = load(str(replace(tiny, config={**tiny.config, "text_config": text}).save(tmp_path)))
    check_length(model.vlm, 100, 1)
    with pytest.raises(InputError, match="101 tokens, but the model reads 100"):
        check_length(model.vlm, 101, 1)
