"""Keys as they are before rotary embedding, which is how pages are stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from conduit_cli.engine.backend.attention import FORWARD
from conduit_cli.errors import ModelError

__all__ = ["KeyTap"]


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
        """Record while inside; other threads' forwards wait."""
        with ExitStack() as stack:
            stack.enter_context(FORWARD)
            for index, attention in enumerate(self._layers):
                source = getattr(attention, "k_norm", None) or attention.k_proj
                stack.callback(source.register_forward_hook(self._hook(index)).remove)  # type: ignore[union-attr]
            yield

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
