"""Made-up evidence for policies that are held against their formulas."""

from __future__ import annotations

import torch

from conduit_cli.policies.base import Evidence, LayerView

__all__ = ["evidence", "layer_view"]


def evidence(seed: int, sizes: list[int], budget: int, ratio: float = 0.5, layers: int = 3) -> Evidence:
    """Random norms and attention for pages of so many tokens."""
    torch.manual_seed(seed)
    page_of = torch.cat([torch.full((n,), i) for i, n in enumerate(sizes)])
    tokens = len(page_of)
    return Evidence(page_of, torch.rand(layers, tokens) + 0.1, torch.rand(layers, tokens), ratio, budget)


def layer_view(seed: int, layer: int, active: list[int]) -> LayerView:
    """Random old and new K/V of two KV heads of four."""
    torch.manual_seed(seed)
    n = len(active)
    tensors = [torch.randn(2, n, 4) for _ in range(4)]
    return LayerView(layer, torch.tensor(active), *tensors, torch.rand(n))
