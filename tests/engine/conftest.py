"""A tiny random Qwen2.5-VL in float32, and the stock forward it is held against."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from PIL import Image

import conduit_cli.models
from conduit_cli.families.base import Family
from conduit_cli.families.qwen2_5_vl import Qwen25VL
from tests.engine.stock import Stock

_BUNDLED = Path(conduit_cli.models.__file__).parent / "bundled"


@pytest.fixture(scope="session")
def tiny() -> Family:
    """Random weights of a usual spread, so that attention is not flat; 3 query heads a KV head."""
    config = transformers.AutoConfig.from_pretrained(_BUNDLED)
    text = config.text_config
    text.hidden_size, text.intermediate_size, text.num_hidden_layers = 192, 256, 3
    text.num_attention_heads, text.num_key_value_heads = 6, 2
    text.layer_types = ["full_attention"] * 3
    text.rope_parameters = {**text.rope_parameters, "mrope_section": [4, 6, 6]}
    text.initializer_range = 0.12
    config.vision_config.depth, config.vision_config.out_hidden_size = 2, 192
    config.vision_config.fullatt_block_indexes = [1]
    torch.manual_seed(0)
    model = transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(_BUNDLED)
    processor = transformers.AutoImageProcessor.from_pretrained(_BUNDLED, backend="pil")
    return Qwen25VL(model.eval(), tokenizer, processor, max_pixels=40 * 784)


@pytest.fixture(scope="session")
def stock(tiny: Family) -> Stock:
    """The stock model with the same weights and its own sdpa attention."""
    return Stock(tiny)


@pytest.fixture(scope="session")
def images() -> list[Image.Image]:
    """Three pictures of different shapes with different content."""
    torch.manual_seed(1)
    sizes = [(140, 112), (112, 168), (196, 84)]
    return [
        Image.effect_noise(size, 60 + 30 * index).convert("RGB").rotate(index, fillcolor="white")
        for index, size in enumerate(sizes)
    ]
