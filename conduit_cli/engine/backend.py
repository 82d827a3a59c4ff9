"""The one module that touches transformers' cache and attention API.

Everything else asks for a `PromptCache`, runs rows through `run_rows` and reads what a
`Recorder` or a `KeyTap` saw. Checked against transformers 5.24: the cache travels as `cache=`, a
ready 4-D mask is used as it is, attention is looked up by name in `AttentionInterface`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.cache_utils import Cache, DynamicLayer

from conduit_cli.errors import ModelError

__all__ = ["ATTENTION", "KeyTap", "Narrow", "Overwritten", "PromptCache", "Recorder", "attach", "detached", "run_rows"]

ATTENTION = "conduit"
_ROWS_AT_ONCE = 512
_SDPA = AttentionInterface()["sdpa"]


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


_recorder: Recorder | None = None
_leaving = False


class _Left(Exception):
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
    if _recorder is not None:
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        _recorder.see(int(module.layer_idx), query, key, attention_mask, scale)  # type: ignore[arg-type]
    if _leaving:
        raise _Left
    out: tuple[Tensor, Tensor | None] = _SDPA(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    return out


AttentionInterface.register(ATTENTION, _attention)


def attach(text_model: nn.Module) -> None:
    """Make a stock text model use the observed attention; its vision tower keeps its own."""
    text_model.config._attn_implementation = ATTENTION  # type: ignore[union-attr]


@contextmanager
def detached(text_model: nn.Module) -> Iterator[None]:
    """The stock sdpa attention in its place while inside."""
    config: Any = text_model.config
    config._attn_implementation = "sdpa"
    try:
        yield
    finally:
        attach(text_model)


class KeyTap:
    """Catches every layer's keys before rotary embedding, as [H_kv, R, d].

    They leave `k_norm` where the attention has one (Qwen3, Gemma 3), else `k_proj`.

    Raises:
        ModelError: a layer has neither, because queries, keys and values are one product (Phi-3).
    """

    def __init__(self, text_model: nn.Module, kv_heads: int, head_dim: int) -> None:
        self.keys: dict[int, Tensor] = {}
        self._shape = (kv_heads, head_dim)
        self._layers: list[nn.Module] = [layer.self_attn for layer in text_model.layers]  # type: ignore[union-attr]
        if not all(hasattr(attention, "k_norm") or hasattr(attention, "k_proj") for attention in self._layers):
            raise ModelError("this model's attention has no key projection of its own, so its keys can't be kept")

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Record while inside."""
        handles = []
        for index, attention in enumerate(self._layers):
            source = getattr(attention, "k_norm", None) or attention.k_proj
            handles.append(source.register_forward_hook(self._hook(index)))  # type: ignore[union-attr]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, index: int) -> Any:
        kv_heads, head_dim = self._shape

        def keep(_module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            heads_first = output.ndim == 4 and output.shape[1] == kv_heads
            if heads_first and output.shape[2] == kv_heads:  # as many rows as heads: a transpose is not contiguous
                heads_first = not args[0].is_contiguous()
            if heads_first:  # normalised after the transpose (Gemma 3)
                self.keys[index] = output[0]
            else:
                self.keys[index] = output.reshape(-1, kv_heads, head_dim).transpose(0, 1)

        return keep


Narrow = Callable[[int], Tensor | None]
"""Given a layer, the indices of the previous layer's rows that go on into it; None keeps all."""


@contextmanager
def _narrowing(text_model: nn.Module, cache: PromptCache, narrow: Narrow) -> Iterator[None]:
    """Drop rows between layers: hidden states once, and what every layer is handed each time."""
    kept: Tensor | None = None

    def before(layer: int) -> Any:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            nonlocal kept
            hidden = args[0]
            going_on = narrow(layer)
            if going_on is not None:
                hidden = hidden[:, going_on]
                kept = going_on if kept is None else kept[going_on]
                assert cache.slots is not None
                cache.slots = cache.slots[going_on]
            return None if kept is None else ((hidden, *args[1:]), _taking(kept, kwargs))

        return hook

    layers: list[nn.Module] = list(text_model.layers)  # type: ignore[arg-type]
    handles = [
        module.register_forward_pre_hook(before(index), with_kwargs=True)
        for index, module in enumerate(layers)
        if index
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _taking(rows: Tensor, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What a layer is handed besides hidden states, for these of its rows [R]."""
    taken = dict(kwargs)
    taken["position_embeddings"] = tuple(t.index_select(-2, rows) for t in kwargs["position_embeddings"])
    for name, axis in (("attention_mask", -2), ("position_ids", -1)):
        if kwargs.get(name) is not None:
            taken[name] = kwargs[name].index_select(axis, rows)
    return taken


@contextmanager
def _last_row_only(text_model: nn.Module, cache: PromptCache) -> Iterator[None]:
    """Take only the last row through the last layer; of the other rows nothing is wanted there but keys and values.

    All rows enter the layer and leave it at the attention, when their K/V are written and the recorder has seen
    their queries. Then the last row alone goes through it. What leaves it has the other rows too, all the same: a
    model may add something behind its last layer (Qwen3-VL's deepstack, where it is as deep as the decoder).
    """
    entered = 1

    def before(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        global _leaving, _recorder
        nonlocal entered
        hidden = args[0]
        entered = hidden.shape[1]
        if entered == 1:
            return None
        _leaving = True
        try:
            layer.forward(*args, **kwargs)
        except _Left:
            pass
        finally:
            _leaving = False
        _recorder, cache.written_before = None, True
        last = torch.tensor([entered - 1], device=hidden.device)
        return (hidden[:, -1:], *args[1:]), _taking(last, kwargs)

    def after(_layer: nn.Module, _args: tuple[Any, ...], output: Tensor) -> Tensor:
        return output.expand(-1, entered, -1)

    layer: nn.Module = text_model.layers[-1]  # type: ignore[index,assignment]
    handles = layer.register_forward_pre_hook(before, with_kwargs=True), layer.register_forward_hook(after)
    try:
        yield
    finally:
        cache.written_before = False
        for handle in handles:
            handle.remove()


def run_rows(
    text_model: nn.Module,
    embeds: Tensor,
    positions: Tensor,
    mask: Tensor | Mapping[str, Tensor | None] | None,
    cache: PromptCache,
    slots: Tensor,
    *,
    recorder: Recorder | None = None,
    extras: Mapping[str, Any] | None = None,
    narrow: Narrow | None = None,
    last_row_only: bool = False,
) -> Tensor:
    """Run some rows of a prompt through the stock decoder.

    Args:
        text_model: the stock text model (embedding to final norm).
        embeds: [R, hidden] inputs of the rows.
        positions: [P, R] rotary positions; P is 1, or 3 for M-RoPE.
        mask: bool [1, 1, R, N], True where a row may look; one per layer type where they differ;
            None lets a single row look at everything.
        cache: the prompt's cache; rows are written at `slots` [R].
        recorder: sees post-rotary queries of every layer, if given.
        extras: family keywords of the text model (Qwen3-VL's deepstack features).
        narrow: asked before every layer but the first which rows go on, if given.
        last_row_only: nothing is wanted of the other rows but their K/V, which spares them most of the last layer.

    Returns:
        Hidden states after the final norm, [R, hidden]; of the rows that reached the last layer, or of the last one.
    """
    global _recorder
    position_ids = positions[:, None] if positions.shape[0] > 1 else positions
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode())
        stack.enter_context(cache.writing(slots))
        if narrow is not None:
            stack.enter_context(_narrowing(text_model, cache, narrow))
        if last_row_only:  # after the other, so that its hook is given the rows that are left
            stack.enter_context(_last_row_only(text_model, cache))
        _recorder = recorder
        try:
            output = text_model(
                inputs_embeds=embeds[None],
                position_ids=position_ids,
                attention_mask=dict(mask) if isinstance(mask, Mapping) else mask,
                cache=cache,
                use_cache=True,
                **(extras or {}),
            )
        finally:
            _recorder = None
    hidden: Tensor = output.last_hidden_state[0]
    return hidden[-1:] if last_row_only else hidden
