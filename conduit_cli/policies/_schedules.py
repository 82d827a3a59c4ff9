"""How many tokens each layer recomputes, for policies that spend a budget over layers."""

from __future__ import annotations

import math

from conduit_cli.policies.base import budget_of

__all__ = ["linear_schedule", "shrinking_schedule"]


def shrinking_schedule(ratio: float, tokens: int, layers: int) -> list[int]:
    """n_l = floor(N * max(0, 1 - l/h)), h as large as a mean of r*N over the layers allows.

    Every token goes through layer 0, so the least that can be spent is N/L a layer. A smaller budget
    (r < 1/L) is left unspent: recomputing some tokens in layer 0 alone changes no key and no value,
    since there they depend on the token's own embedding only.
    """
    limit = budget_of(ratio, tokens * layers)
    if limit >= tokens * layers:
        return [tokens] * layers
    if limit < tokens:
        return [0] * layers

    def counts(horizon: float) -> list[int]:
        return [math.floor(tokens * max(0.0, 1 - layer / horizon)) for layer in range(layers)]

    low, high = 1.0, 2.0 * layers * tokens
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(counts(middle)) <= limit else (low, middle)
    return counts(low)


def linear_schedule(ratio: float, tokens: int, layers: int) -> list[int]:
    """n_l falls linearly to the last layer, with a mean of r*N; layers that reach N hand the rest on."""
    limit = budget_of(ratio, tokens * layers)
    weights = [layers - layer for layer in range(layers)]
    low, high = 0.0, float(tokens)
    for _ in range(80):
        middle = (low + high) / 2
        spent = sum(min(tokens, math.floor(middle * weight)) for weight in weights)
        low, high = (middle, high) if spent <= limit else (low, middle)
    if sum(min(tokens, math.floor(high * weight)) for weight in weights) <= limit:
        low = high
    return [min(tokens, math.floor(low * weight)) for weight in weights]
