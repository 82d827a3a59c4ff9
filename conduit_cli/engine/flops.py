"""FLOPs of decoder passes, counted as torch's FlopCounterMode counts them.

A row costs 2 FLOPs per weight of every linear layer, and 4*H*d per key it is multiplied with (scores
and weighted sum; masked keys are counted, as the kernels are given them). In the last layer only one row
is taken further than query, key and value. The vision tower and the embedding table are on neither
side of a ratio.
"""

from __future__ import annotations

from collections.abc import Sequence

from conduit_cli.engine.vlm import Decoder

__all__ = ["full_prefill_flops", "pass_flops"]


def pass_flops(decoder: Decoder, rows: Sequence[int], keys: int) -> int:
    """FLOPs of one forward over `keys` cached slots up to the last row's hidden state.

    Args:
        rows: how many rows were run in each layer.
    """
    g = decoder.geometry
    whole = 2 * decoder.linear_weights // g.layers + 4 * g.heads * g.head_dim * keys
    projected = 2 * g.hidden * (g.heads + 2 * g.kv_heads) * g.head_dim
    return sum(rows[:-1]) * whole + (rows[-1] * projected if rows[-1] > 1 else 0) + whole


def full_prefill_flops(decoder: Decoder, tokens: int) -> int:
    """FLOPs of a prefill of `tokens` tokens up to the first answer token's logits, in one pass of this engine."""
    return pass_flops(decoder, [tokens] * decoder.geometry.layers, tokens) + 2 * decoder.head_weights
