"""Placement: stored keys are rotated to their positions in a new prompt.

k_rot = k * cos + rotate_half(k) * sin, with cos and sin from the model's own rotary module, is the
very operation that the stock attention applies, so a placed key equals a computed one bit for bit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from conduit_cli.engine.backend import PromptCache
from conduit_cli.engine.prompt import Prompt
from conduit_cli.engine.vlm import Decoder

__all__ = ["place", "rotate"]


def rotate(keys: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of keys [H_kv, n, d] with cos, sin [n, d]."""
    first, second = keys.chunk(2, dim=-1)
    return keys * cos + torch.cat((-second, first), dim=-1) * sin


def place(decoder: Decoder, prompt: Prompt, cache: PromptCache) -> None:
    """Write every stored page's rotated keys and its values at their slots, layer by layer."""
    rotary = decoder.rotary(prompt.positions)
    cache.length = len(prompt)
    for image, state in enumerate(prompt.states):
        slots = prompt.slots_of(image)
        for layer, (cos, sin) in enumerate(rotary):
            keys = state.layer("keys", layer).to(decoder.device, decoder.dtype)
            cache.keys[layer][0].index_copy_(1, slots, rotate(keys, cos[slots], sin[slots]))
            values = state.layer("values", layer).to(decoder.device, decoder.dtype)
            cache.values[layer][0].index_copy_(1, slots, values)
