"""Some rows of a prompt through the stock decoder, all the way or fewer from layer to layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from conduit_cli.engine.backend.attention import FORWARD, Left, Recorder, watch
from conduit_cli.engine.backend.cache import PromptCache

__all__ = ["Narrow", "run_rows"]

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
        nonlocal entered
        hidden = args[0]
        entered = hidden.shape[1]
        if entered == 1:
            return None
        watch.leaving = True
        try:
            layer.forward(*args, **kwargs)
        except Left:
            pass
        finally:
            watch.leaving = False
        watch.recorder, cache.written_before = None, True
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
    position_ids = positions[:, None] if positions.shape[0] > 1 else positions
    with ExitStack() as stack:
        stack.enter_context(FORWARD)
        stack.enter_context(torch.inference_mode())
        stack.enter_context(cache.writing(slots))
        if narrow is not None:
            stack.enter_context(_narrowing(text_model, cache, narrow))
        if last_row_only:  # after the other, so that its hook is given the rows that are left
            stack.enter_context(_last_row_only(text_model, cache))
        watch.recorder = recorder
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
            watch.recorder = None
    hidden: Tensor = output.last_hidden_state[0]
    return hidden[-1:] if last_row_only else hidden
