"""A prompt's keys and values as transformers' cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

__all__ = ["Overwritten", "PromptCache"]


@dataclass(frozen=True)
class Overwritten:
    """What one layer's rows wrote, and what stood there before: each [H_kv, R, d]."""

    keys: Tensor
    values: Tensor
    stale_keys: Tensor
    stale_values: Tensor


class PromptCache(Cache):  # type: ignore[misc]
    """Keys and values of one prompt, allocated once, written by slot.

    A slot is a token's index in the prompt (not its rotary position). `run_rows` names the slots of
    its rows; `update` writes them and hands back every slot below `length`.

    Attributes:
        keys: per layer [1, H_kv, capacity, d], after rotary embedding.
        values: per layer [1, H_kv, capacity, d].
        length: slots in use: the prompt's tokens, then one more for each decoded one.
        slots: [R] where the rows of the forward that is under way are written.
        written_before: the layer that is under way has its rows' K/V already: `update` writes nothing.
        comparing: whether `update` keeps what it overwrites.
        overwritten: of the layer that was written last, while `comparing`.
    """

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        head_dim: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__(layers=[DynamicLayer() for _ in range(layers)])
        shape = (1, kv_heads, capacity, head_dim)
        self.keys = [torch.empty(shape, dtype=dtype, device=device) for _ in range(layers)]
        self.values = [torch.empty(shape, dtype=dtype, device=device) for _ in range(layers)]
        self.capacity = capacity
        self.length = 0
        self.slots: Tensor | None = None
        self.written_before = False
        self.comparing = False
        self.overwritten: Overwritten | None = None
        self._written = [0] * layers

    @contextmanager
    def writing(self, slots: Tensor) -> Iterator[None]:
        """Say which slots [R] the next forward's rows are, in row order."""
        self.slots = slots
        try:
            yield
        finally:
            self.slots = self.overwritten = None

    def copy(self) -> PromptCache:
        """A cache of its own with the same K/V and the same room."""
        layers, (_, kv_heads, _, head_dim), first = len(self.keys), self.keys[0].shape, self.keys[0]
        other = PromptCache(layers, kv_heads, head_dim, self.capacity, first.dtype, first.device)
        for mine, its in zip(self.keys + self.values, other.keys + other.values, strict=True):
            its.copy_(mine)
        other.length, other._written = self.length, list(self._written)
        return other

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write the rows' K/V [1, H_kv, R, d] at their slots; return all slots in use."""
        if self.slots is None:
            raise RuntimeError("a forward ran over a PromptCache without naming its slots")
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        if not self.written_before:
            if self.comparing:
                stale = keys[0][:, self.slots], values[0][:, self.slots]
                self.overwritten = Overwritten(key_states[0], value_states[0], *stale)
            keys.index_copy_(2, self.slots, key_states)
            values.index_copy_(2, self.slots, value_states)
            self._written[layer_idx] += key_states.shape[2]
        return keys[:, :, : self.length], values[:, :, : self.length]

    @property
    def rows_written(self) -> tuple[int, ...]:
        """Per layer, how many rows the model has computed into this cache so far."""
        return tuple(self._written)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Slots in use; never a position (with M-RoPE the two differ)."""
        return self.length
