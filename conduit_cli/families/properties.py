"""Properties of a decoder that selective refresh can't serve; found in the config, before any weight is read."""

from __future__ import annotations

from typing import Any

from conduit_cli.errors import ModelError

__all__ = ["refuse_unsupported"]

_ROTARY = {"default", "linear", "dynamic", "yarn", "llama3", "mrope"}


def refuse_unsupported(config: Any) -> None:
    """Refuse a config whose decoder can't be served.

    Raises:
        ModelError: one sentence that names the property.
    """
    text = config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or {}
    kinds = {rope.get("rope_type", "default")} if "rope_type" in rope or not rope else set()
    for kind in sorted(kinds - _ROTARY):
        raise ModelError(f"this model's rotary embedding is of type {kind!r}, which can't be moved exactly")
    layer_types = set(getattr(text, "layer_types", None) or ["full_attention"])
    if "sliding_attention" in layer_types:
        raise ModelError("this model has sliding-window attention layers, which are not supported")
    for kind in sorted(layer_types - {"full_attention"}):
        raise ModelError(f"this model has layers of type {kind!r}, which keep no keys and values per token")
    if getattr(text, "cross_attention_layers", None):
        raise ModelError("this model reads images through cross-attention, so a page has no keys of its own")
    if getattr(text, "kv_lora_rank", None):
        raise ModelError("this model has multi-head latent attention, whose cache can't be rotated")
    if getattr(text, "partial_rotary_factor", None) not in (None, 1, 1.0):
        raise ModelError("this model rotates only a part of each head, which is not supported")
