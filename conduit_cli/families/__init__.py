"""Model families, one per file: how a prompt is built and where its visual tokens stand.

`_FAMILIES` maps a config's `model_type` to the class that serves it; adding a family is one file and
one entry here (CONTRIBUTING.md, "Adding a family").
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from conduit_cli.errors import ModelError

if TYPE_CHECKING:
    from conduit_cli.families.base import Family

__all__ = ["family_for", "family_of_type", "model_types"]

_FAMILIES = {
    "qwen2_vl": "qwen2_vl:Qwen2VL",
    "qwen2_5_vl": "qwen2_5_vl:Qwen25VL",
    "qwen3_vl": "qwen3_vl:Qwen3VL",
    "llava": "llava:Llava",
    "llava_next": "llava_next:LlavaNext",
    "llava_onevision": "llava_onevision:LlavaOneVision",
    "internvl": "internvl:InternVL",
    "idefics3": "idefics3:Idefics3",
    "smolvlm": "smolvlm:SmolVLM",
    "gemma3": "gemma3:Gemma3",
}


def model_types() -> list[str]:
    """Every `model_type` that is served."""
    return list(_FAMILIES)


def family_for(config: Any) -> type[Family]:
    """The family class of a transformers config.

    Raises:
        ModelError: no family serves this `model_type`, or the configuration has a property that
            can't be served; the sentence names it.
    """
    from conduit_cli.families.properties import refuse_unsupported

    refuse_unsupported(config)
    model_type = getattr(config, "model_type", "unknown")
    if model_type not in _FAMILIES:
        raise ModelError(
            f"models of type {model_type!r} are not supported",
            f"supported types: {', '.join(model_types())}",
        )
    return family_of_type(model_type)


def family_of_type(model_type: str) -> type[Family]:
    """The family class of a `model_type` that is served."""
    module, attribute = _FAMILIES[model_type].split(":")
    family: type[Family] = getattr(import_module(f"conduit_cli.families.{module}"), attribute)
    return family
