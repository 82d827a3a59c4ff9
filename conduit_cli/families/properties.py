"""Properties of a decoder that selective refresh can't serve; found in the config, before any weight is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conduit_cli.errors import ModelError

__all__ = ["refuse_unsupported"]

_ROTARY = {"default", "linear", "dynamic", "yarn", "llama3", "mrope"}
_WITH_SINKS = {"gpt_oss"}
_LAYERS = {"full_attention", "sliding_attention"}
_FUSED = {"phi3"}


def refuse_unsupported(config: Any) -> None:
    """Refuse a config whose decoder can't be served, whatever its family.

    Raises:
        ModelError: one sentence that names the property.
    """
    for reason in _reasons(config, config.get_text_config()):
        raise ModelError(f"this model {reason}", "conduit models list")


def _reasons(config: Any, text: Any) -> Iterator[str]:
    if _has(text, "cross_attention_layers") or _has(text, "cross_layer_interval"):
        yield "reads images through cross-attention, so a page has no keys of its own"
    if _has(config, "is_encoder_decoder"):
        yield "has an encoder and a decoder, so a page has no keys of its own in the decoder"
    if _has(text, "kv_lora_rank"):
        yield "has multi-head latent attention, whose cache can't be rotated"
    for kind in sorted({str(one) for one in getattr(text, "layer_types", None) or ()} - _LAYERS):
        yield f"has layers of type {kind!r}, which keep no keys and values per token"
    for name in ("mamba_d_state", "ssm_state_size", "linear_num_value_heads"):
        if _has(text, name):
            yield f"has recurrent layers ({name}), which keep no keys and values per token"
    for kind in sorted(_rotary_types(text) - _ROTARY):
        yield f"has a rotary embedding of type {kind!r}, which can't be moved exactly"
    if getattr(text, "model_type", None) in _FUSED:
        yield "makes queries, keys and values in one product, so that its keys can't be told before rotation"
    if _partial(text):
        yield "rotates only a part of each head, which is not supported"
    if _has(text, "use_bidirectional_attention"):
        yield "lets text see what comes after it, so that no stored page would be right"
    if getattr(text, "model_type", None) in _WITH_SINKS:
        yield "has attention sinks, which the attention used here doesn't know"
    if _has(text, "attn_logit_softcapping"):
        yield "caps its attention scores, which the attention used here doesn't"
    if _has(text, "num_kv_shared_layers"):
        yield "shares keys and values between layers, which is not supported"
    if _has(config, "video_token_id") and not _has(config, "image_token_id"):
        yield "reads video and no images"
    if getattr(getattr(config, "vision_config", None), "model_type", None) == "pixtral":
        yield "has Pixtral's vision tower, whose row breaks are not supported"


def _has(config: Any, name: str) -> bool:
    return bool(getattr(config, name, None))


def _ropes(text: Any) -> list[dict[str, Any]]:
    """The rotary settings: one set, or one per layer type."""
    settings = getattr(text, "rope_parameters", None) or {}
    nested = [one for one in settings.values() if isinstance(one, dict)]
    return nested or [settings]


def _rotary_types(text: Any) -> set[str]:
    return {str(one.get("rope_type", "default")) for one in _ropes(text)}


def _partial(text: Any) -> bool:
    named = [getattr(text, "partial_rotary_factor", None), *(one.get("partial_rotary_factor") for one in _ropes(text))]
    return any(factor not in (None, 1, 1.0) for factor in named)
