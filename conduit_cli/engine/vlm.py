"""What the engine needs of a model, and nothing of its family.

A family module builds a `Decoder` and implements `VisionLanguageModel`; the engine calls no
transformers class by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any, Protocol

import torch
from PIL import Image
from torch import Tensor, nn

from conduit_cli.engine import backend

__all__ = ["Decoder", "EncodedImage", "Geometry", "Message", "PageState", "VisionLanguageModel"]

Message = Mapping[str, Any]
"""A chat message: `role`, and `content` as a list of `{"type": "text", "text": ...}` and `{"type": "image"}`."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes of a decoder: L layers, H query heads, H_kv KV heads of d, hidden width."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int

    @classmethod
    def of(cls, config: Any) -> Geometry:
        """From a text model's config."""
        return cls(
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            kv_heads=getattr(config, "num_key_value_heads", None) or config.num_attention_heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
            hidden=config.hidden_size,
        )


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """One image after the vision tower.

    Attributes:
        embeddings: [n, hidden], what the decoder gets at the image's n visual tokens.
        extras: family tensors with n as their second axis, e.g. deepstack [layers, n, hidden].
        layout: JSON-ready facts from which the family rebuilds placeholders and positions
            (grid_thw for Qwen, tiles for others).
        grid: token grid (rows, columns) for reports, or None where tokens form no single grid.
    """

    embeddings: Tensor
    extras: Mapping[str, Tensor]
    layout: Mapping[str, Any]
    grid: tuple[int, int] | None


class PageState(Protocol):
    """A page's stored state, wherever it lies; tensors as in METHOD.md section 2."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """`layout`, `grid` and `tokens` of the page."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the tensors held."""

    def tensor(self, name: str) -> Tensor:
        """A whole tensor."""

    def layer(self, name: str, layer: int) -> Tensor:
        """One layer of a tensor whose first axis is the decoder's layers."""


class Decoder:
    """The language half of a model: stock modules plus their sizes.

    Args:
        text_model: the stock text model; its attention is switched to the observed one.
        lm_head: hidden [*, hidden] to logits [*, vocab].
    """

    def __init__(self, text_model: nn.Module, lm_head: nn.Module) -> None:
        backend.attach(text_model)
        self.text_model = text_model
        self.lm_head = lm_head
        self.geometry = Geometry.of(text_model.config)

    @property
    def dtype(self) -> torch.dtype:
        """The weights' dtype, which is also that of K/V."""
        return self._embedding.weight.dtype  # type: ignore[return-value]

    @property
    def device(self) -> torch.device:
        """Where the decoder runs."""
        return self._embedding.weight.device  # type: ignore[return-value]

    @property
    def _embedding(self) -> nn.Module:
        embedding: nn.Module = self.text_model.get_input_embeddings()  # type: ignore[operator]
        return embedding

    def embed(self, ids: Tensor) -> Tensor:
        """Token embeddings [R, hidden] of ids [R]."""
        with torch.inference_mode():
            out: Tensor = self._embedding(ids)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits [R, vocab] in float32."""
        with torch.inference_mode():
            out: Tensor = self.lm_head(hidden).float()
        return out

    def rotary(self, positions: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Per layer, cos and sin [R, d] of positions [P, R], from the model's own rotary module.

        Layers of one type share their tensors; most models have one type for all layers. A scaling of
        attention (yarn) is already in them.
        """
        position_ids = positions[:, None] if positions.shape[0] > 1 else positions
        like = torch.empty(0, dtype=self.dtype, device=self.device)
        module: Any = self.text_model.rotary_emb
        by_type = "layer_type" in signature(module.forward).parameters
        kinds = self.layer_types if by_type else ("",) * self.geometry.layers
        made: dict[str, tuple[Tensor, Tensor]] = {}
        with torch.inference_mode():
            for kind in set(kinds):
                cos, sin = module(like, position_ids, kind) if by_type else module(like, position_ids)
                made[kind] = cos[0], sin[0]
        return [made[kind] for kind in kinds]

    @cached_property
    def layer_types(self) -> tuple[str, ...]:
        """Of each layer, `full_attention` or `sliding_attention`."""
        config: Any = self.text_model.config
        named = getattr(config, "layer_types", None)
        if named is None:  # Mistral: a window is that of all layers
            sliding = getattr(config, "sliding_window", None) is not None
            named = ["sliding_attention" if sliding else "full_attention"] * self.geometry.layers
        return tuple(named)

    @property
    def window(self) -> int | None:
        """Keys that a row of a sliding layer sees, itself among them; None where no layer slides."""
        if "sliding_attention" not in self.layer_types:
            return None
        return int(self.text_model.config.sliding_window)  # type: ignore[union-attr,arg-type]

    @cached_property
    def linear_weights(self) -> int:
        """Weights that every row is multiplied with, all layers, embedding and head left out."""
        layers: nn.Module = self.text_model.layers  # type: ignore[assignment]
        return sum(m.in_features * m.out_features for m in layers.modules() if isinstance(m, nn.Linear))

    @cached_property
    def head_weights(self) -> int:
        """Weights of the language head."""
        return sum(p.numel() for p in self.lm_head.parameters())

    def new_cache(self, capacity: int) -> backend.PromptCache:
        """An empty cache for `capacity` tokens."""
        g = self.geometry
        return backend.PromptCache(g.layers, g.kv_heads, g.head_dim, capacity, self.dtype, self.device)


class VisionLanguageModel(Protocol):
    """A loaded model as the engine sees it; one implementation per family."""

    decoder: Decoder

    @property
    def extra_width(self) -> int:
        """Numbers of `extras` that a page's state holds per visual token; 0 where the family adds nothing."""

    def fit(self, width: float, height: float) -> tuple[int, int]:
        """Pixel size at which a vector page of this shape is rendered for the pixel budget."""

    def encode_image(self, image: Image.Image) -> EncodedImage:
        """Run processor and vision tower on one image."""

    def tokenize(
        self, messages: Sequence[Message], layouts: Sequence[Mapping[str, Any]], *, generate: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Chat template with placeholders expanded: ids [N] and image index [N] (-1 for text)."""

    def positions(self, ids: Tensor, image_of: Tensor, layouts: Sequence[Mapping[str, Any]]) -> Tensor:
        """Rotary positions [P, N] of a whole prompt."""

    def masks(self, rows: Tensor, image_of: Tensor) -> Tensor | Mapping[str, Tensor | None] | None:
        """Attention masks of rows (slots [R]) over the prompt's slots [N]; causal unless the family says otherwise."""

    def extras(self, rows: Tensor, image_of: Tensor, states: Sequence[PageState]) -> Mapping[str, Any]:
        """Family keywords of the text model for a forward of these rows."""

    def decode_text(self, ids: Sequence[int]) -> str:
        """Text of generated ids, special tokens left out."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """Ids that end an answer."""
