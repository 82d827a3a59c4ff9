"""What is read of a model's folder besides its weights, and what follows from it for loading them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import torch
import transformers

from conduit_cli.errors import ModelError, first_line
from conduit_cli.models.locate import Located

__all__ = [
    "device_for",
    "dtype_for",
    "image_processor_of",
    "planned_dtype",
    "quantization",
    "read_model_config",
    "tokenizer_of",
]

_QUANTIZERS = {"bitsandbytes": ("bitsandbytes", "accelerate")}
"""Ways of packing weights in 4 or 8 bits, and the packages that transformers unpacks them with."""
_LOCAL = {"local_files_only": True, "trust_remote_code": False}
"""Nothing is fetched, and no code that lies in a model's folder is run, nor is anybody asked to."""
_SMALL = 1_000_000_000
"""Parameters below which a CPU runs a model in float32 without much loss of speed."""


def read_model_config(located: Located) -> Any:
    """The transformers config of a model's folder.

    Raises:
        ModelError: it can't be read, or transformers has no such type.
    """
    try:
        return transformers.AutoConfig.from_pretrained(located.folder, **_LOCAL)
    except Exception as error:
        kind = "unknown"
        try:
            kind = json.loads((located.folder / "config.json").read_text("utf-8")).get("model_type", kind)
        except (ValueError, OSError, AttributeError):
            raise ModelError(f"{located.folder / 'config.json'} can't be read") from error
        raise ModelError(f"models of type {kind!r} are not supported", "conduit models list") from error


def image_processor_of(located: Located) -> Any:
    """The stock image processor, with its PIL backend.

    Raises:
        ModelError: there is none, or it can't be loaded.
    """
    try:
        return transformers.AutoImageProcessor.from_pretrained(located.folder, backend="pil", **_LOCAL)
    except Exception as error:
        raise ModelError(f"the image processor of {located.folder} can't be loaded: {first_line(error)}") from error


def planned_dtype(located: Located, config: Any) -> torch.dtype:
    """The dtype that `load` takes by itself on this machine."""
    return dtype_for("auto", located, config, device_for("auto"))


def quantization(config: Any) -> str | None:
    """How the checkpoint's weights are packed, or None.

    Raises:
        ModelError: what unpacks them is not installed.
    """
    settings = getattr(config, "quantization_config", None)
    if settings is None:
        return None
    of = settings.get if isinstance(settings, dict) else lambda name, other=None: getattr(settings, name, other)
    method = str(getattr(of("quant_method", "unknown"), "value", of("quant_method", "unknown")))
    needed = _QUANTIZERS.get(method)
    if needed is None:
        raise ModelError(
            f"this model's weights are quantized by {method!r}, which is not supported",
            f"supported: {', '.join(_QUANTIZERS)}, or weights that are not quantized",
        )
    missing = [package for package in needed if importlib.util.find_spec(package) is None]
    if missing:
        raise ModelError(
            f"this model's weights are quantized by {method}, and {' and '.join(missing)} is not installed",
            f"pip install {' '.join(missing)}",
        )
    return method


def device_for(name: str) -> torch.device:
    """The device of an option: `auto` is CUDA where there is one.

    Raises:
        ModelError: CUDA was asked for, and there is none.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ModelError("there is no CUDA device on this machine", "try: --device cpu")
    return torch.device(name)


def dtype_for(name: str, located: Located, config: Any, device: torch.device) -> torch.dtype:
    """The dtype of an option: `auto` is the checkpoint's own, but float32 for a small model on a CPU."""
    if name != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[name]
    own = config.dtype if isinstance(config.dtype, torch.dtype) else torch.float32
    size = sum(path.stat().st_size for path in located.folder.glob("*.safetensors"))
    if device.type == "cpu" and (size / own.itemsize < _SMALL or own == torch.float16):
        return torch.float32
    return own


def tokenizer_of(folder: Path) -> Any:
    """The stock tokenizer, with the chat template from wherever the checkpoint has it.

    Raises:
        ModelError: it has none.
    """
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **_LOCAL)
    if tokenizer.chat_template is None and (folder / "chat_template.json").is_file():
        template = json.loads((folder / "chat_template.json").read_text("utf-8"))
        tokenizer.chat_template = template["chat_template"]
    if tokenizer.chat_template is None:
        raise ModelError(f"the model in {folder} has no chat template, so it can't be asked")
    return tokenizer
