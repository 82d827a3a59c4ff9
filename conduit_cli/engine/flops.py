"""FLOPs of decoder passes, counted as torch's FlopCounterMode counts them.

A row costs 2 FLOPs per weight of every linear layer, and 4*H*d per key it is multiplied with (scores
and weighted sum; masked keys are counted, as the kernels are given them). The vision tower and the
embedding table are on neither side of a ratio.
"""

from __future__ import annotations

from collections.abc import Sequence

from conduit_cli.engine.vlm import Decoder

__all__ = ["full_prefill_flops", "pass_flops"]


def pass_flops(decoder: Decoder, rows: int | Sequence[int], keys: int, *, logits: int = 0) -> int:
    """FLOPs of one forward over `keys` cached slots, with `logits` rows of the head.

    Args:
        rows: how many rows were run; one number per layer where it differs.
    """
    g = decoder.geometry
    of_all_layers = rows * g.layers if isinstance(rows, int) else sum(rows)
    linear = 2 * decoder.linear_weights // g.layers
    attention = 4 * g.heads * g.head_dim * keys
    return of_all_layers * (linear + attention) + 2 * logits * decoder.head_weights


def full_prefill_flops(decoder: Decoder, tokens: int) -> int:
    """FLOPs of a plain prefill of `tokens` tokens up to the first answer token's logits."""
    return pass_flops(decoder, tokens, tokens, logits=1)
