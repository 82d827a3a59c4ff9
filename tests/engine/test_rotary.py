"""Placement rotates a stored key exactly as the model would have."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import apply_rotary_pos_emb

from conduit_cli.engine.place import rotate


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 4000)] * 3), min_size=1, max_size=9), st.integers(0, 2**16))
def test_rotation_is_that_of_the_stock_attention(positions: list[tuple[int, int, int]], seed: int) -> None:
    torch.manual_seed(seed)
    angles = torch.tensor(positions).float().repeat(1, 6)[:, :16] * torch.rand(16)
    cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
    keys = torch.randn(2, len(positions), 32)
    _, expected = apply_rotary_pos_emb(keys[None], keys[None], cos[None], sin[None])
    assert torch.equal(rotate(keys, cos, sin), expected[0])
