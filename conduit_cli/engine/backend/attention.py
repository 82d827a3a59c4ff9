"""The attention that the stock decoder is given: the stock one, observed."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

__all__ = ["ATTENTION", "FORWARD", "Left", "Recorder", "attach", "detached", "watch"]

ATTENTION = "conduit"
FORWARD = threading.RLock()
"""Held through a forward: what observes it hangs on the model, and would see another thread's rows too."""

_ROWS_AT_ONCE = 512
_SDPA = AttentionInterface()["sdpa"]


@dataclass
class Recorder:
    """Collects the query span's attention while a forward runs.

    Attributes:
        span: row indices [Q] (within the forward's rows) of the query span; None means every row.
        attention: per layer, A_l [N] float32: softmax over all keys j <= q, averaged over the span
            and over the H query heads (METHOD.md section 4).
        layers: those that are recorded; None means all.
    """

    span: Tensor | None
    attention: dict[int, Tensor]
    layers: Container[int] | None = None

    def see(self, layer: int, query: Tensor, key: Tensor, mask: Tensor | None, scaling: float) -> None:
        """Add one layer: query [1, H, R, d], key [1, H_kv, N, d], mask [1, 1, R, N] bool or None."""
        if self.layers is not None and layer not in self.layers:
            return
        heads, kv_heads = query.shape[1], key.shape[1]
        group = heads // kv_heads
        span = torch.arange(query.shape[2], device=query.device) if self.span is None else self.span
        total = torch.zeros(key.shape[2], dtype=torch.float32, device=key.device)
        for some in torch.split(span, _ROWS_AT_ONCE):
            rows = query[0].index_select(1, some)
            allowed = None if mask is None else mask[0, 0].index_select(0, some)
            for h in range(kv_heads):  # one KV head at a time keeps [group, rows, N] the largest temporary
                logits = (rows[h * group : (h + 1) * group] @ key[0, h].T).float() * scaling
                if allowed is not None:
                    logits.masked_fill_(~allowed, float("-inf"))
                total += logits.softmax(-1).sum((0, 1))
        self.attention[layer] = total / (heads * len(span))


@dataclass
class _Watch:
    """What the attention does besides attending, in the forward that is under way.

    Attributes:
        recorder: sees every layer's queries, if there is one.
        leaving: the layer is left before it attends.
    """

    recorder: Recorder | None = None
    leaving: bool = False


watch = _Watch()


class Left(Exception):
    """A layer was left at its attention, once its rows' K/V were written."""


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """The stock sdpa attention, observed by the active recorder."""
    if watch.recorder is not None:
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        watch.recorder.see(int(module.layer_idx), query, key, attention_mask, scale)  # type: ignore[arg-type]
    if watch.leaving:
        raise Left
    out: tuple[Tensor, Tensor | None] = _SDPA(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    return out


AttentionInterface.register(ATTENTION, _attention)


def attach(text_model: nn.Module) -> None:
    """Make a stock text model use the observed attention; its vision tower keeps its own."""
    text_model.config._attn_implementation = ATTENTION  # type: ignore[union-attr]


@contextmanager
def detached(text_model: nn.Module) -> Iterator[None]:
    """The stock sdpa attention in its place while inside; other threads' forwards wait."""
    config: Any = text_model.config
    with FORWARD:
        config._attn_implementation = "sdpa"
        try:
            yield
        finally:
            attach(text_model)
