"""What can't be served is refused by its config, in a sentence that names the property, before any weight is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import transformers

from conduit_cli.errors import ModelError
from conduit_cli.families import family_for
from conduit_cli.models.loading import load
from tests.families.tiny import MATRIX, TEXT, text_config

_LLAVA = MATRIX["llava"].config
_ROPE = {"rope_theta": 1e4}


def _llava(**text: Any) -> Any:
    return transformers.AutoConfig.for_model("llava", **{**_LLAVA, "text_config": text_config("llama", **text)})


def _mllama() -> Any:
    text = {"num_hidden_layers": 4, "cross_attention_layers": [1]}
    return transformers.AutoConfig.for_model("mllama", text_config=text)


def _hybrid() -> Any:
    text = {**TEXT, "layer_types": ["linear_attention", "full_attention", "linear_attention"]}
    return transformers.AutoConfig.for_model("qwen3_5", text_config=text)


def _mla() -> Any:
    text = transformers.AutoConfig.for_model("deepseek_v3", num_hidden_layers=2, hidden_size=64)
    return transformers.AutoConfig.for_model("llava", **{**_LLAVA, "text_config": text.to_dict()})


def _sinks() -> Any:
    rope = {"rope_type": "default", **_ROPE}
    text = transformers.AutoConfig.for_model("gpt_oss", num_hidden_layers=2, rope_parameters=rope)
    return transformers.AutoConfig.for_model("internvl", **{**MATRIX["internvl"].config, "text_config": text.to_dict()})


def _fused() -> Any:
    text = transformers.AutoConfig.for_model("phi3", num_hidden_layers=2, hidden_size=64, num_attention_heads=4)
    return transformers.AutoConfig.for_model("llava", **{**_LLAVA, "text_config": text.to_dict()})


def _video() -> Any:
    return transformers.PretrainedConfig(video_token_id=303)


def _pixtral() -> Any:
    vision = {"model_type": "pixtral", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    return transformers.AutoConfig.for_model("llava", **{**_LLAVA, "vision_config": vision})


def _gemma(**text: Any) -> Any:
    config = MATRIX["gemma3"].config
    return transformers.AutoConfig.for_model("gemma3", **{**config, "text_config": {**config["text_config"], **text}})


_LONGROPE = {"rope_type": "longrope", **_ROPE, "short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "factor": 2.0}

REFUSED: dict[str, tuple[Any, str]] = {
    "cross-attention": (_mllama, "cross-attention"),
    "hybrid layers": (_hybrid, "layers of type 'linear_attention'"),
    "latent attention": (_mla, "multi-head latent attention"),
    "video only": (_video, "reads video and no images"),
    "row breaks": (_pixtral, "Pixtral's vision tower"),
    "longrope": (
        lambda: _llava(rope_parameters={**_LONGROPE, "original_max_position_embeddings": 64}),
        "rotary embedding of type 'longrope'",
    ),
    "partial rotary": (
        lambda: _llava(rope_parameters={"rope_type": "default", **_ROPE, "partial_rotary_factor": 0.5}),
        "only a part of each head",
    ),
    "capped scores": (lambda: _gemma(attn_logit_softcapping=50.0), "caps its attention scores"),
    "text in both directions": (lambda: _gemma(use_bidirectional_attention=True), "see what comes after it"),
    "one product": (_fused, "queries, keys and values in one product"),
    "attention sinks": (_sinks, "attention sinks"),
    "no vision": (lambda: transformers.AutoConfig.for_model("llama"), "type 'llama' are not supported"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_property_is_named(case: str) -> None:
    make, words = REFUSED[case]
    with pytest.raises(ModelError) as caught:
        family_for(make())
    assert words in caught.value.message
    assert "\n" not in caught.value.message


def test_no_weight_is_read_before(tmp_path: Path) -> None:
    """The weights are no safetensors file at all: reading them would be another error."""
    _mllama().save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"not a tensor")
    with pytest.raises(ModelError, match="cross-attention"):
        load(str(tmp_path))
