"""Loading: a name becomes a family object that the engine can run."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from conduit_cli.engine.prefill import BUILD_CONTEXT
from conduit_cli.errors import ModelError
from conduit_cli.families import family_for
from conduit_cli.families.base import Family
from conduit_cli.models.fingerprint import digest_json, fingerprint
from conduit_cli.models.locate import Located, locate
from conduit_cli.models.names import BUNDLED

__all__ = ["Model", "load"]

_SMALL = 1_000_000_000
"""Parameters below which a CPU runs a model in float32 without much loss of speed."""


@dataclass(frozen=True)
class Model:
    """A loaded model.

    Attributes:
        name: as chosen by the user; `bundled` for the one in the package.
        vlm: the family object (an `engine.vlm.VisionLanguageModel`).
        identity: what the store's keys say about it: weights, dtype, processor, pixel budget,
            build context.
    """

    name: str
    vlm: Family
    identity: dict[str, Any]

    @property
    def family(self) -> str:
        """The family's name."""
        return self.vlm.name

    @property
    def device(self) -> str:
        """Where the decoder runs."""
        return str(self.vlm.decoder.device)

    @property
    def dtype(self) -> str:
        """The weights' dtype, e.g. `float32`."""
        return str(self.vlm.decoder.dtype).removeprefix("torch.")

    @property
    def max_pixels(self) -> int:
        """Pixel budget of a page."""
        return self.vlm.max_pixels

    @property
    def is_bundled(self) -> bool:
        """Whether this is the small reader from the package."""
        return self.name == BUNDLED


def load(
    name: str = BUNDLED,
    *,
    device: str = "auto",
    dtype: str = "auto",
    max_pixels: int | None = None,
    offline: bool = False,
) -> Model:
    """Load a model for serving.

    Args:
        name: `bundled`, a local folder, or a hub name with an optional `@revision`.
        device: `auto` (CUDA where there is one), `cpu` or `cuda`.
        dtype: `auto`, `float32`, `bfloat16` or `float16`. Auto is the checkpoint's own, but float32
            for a small model on a CPU.
        max_pixels: pixel budget of a page; None takes the family's default.
        offline: never use the network.

    Raises:
        ModelError: it can't be found, loaded or served.
    """
    located = locate(name, offline=offline)
    config = _config(located)
    family = family_for(config)
    where = _device(device)
    kind = _dtype(dtype, located, config, where)
    with _quietly():
        try:
            model = transformers.AutoModelForImageTextToText.from_pretrained(
                located.folder, dtype=kind, local_files_only=True, use_safetensors=True
            )
            tokenizer = _tokenizer(located.folder)
            processor = transformers.AutoImageProcessor.from_pretrained(
                located.folder, backend="pil", local_files_only=True
            )
        except ModelError:
            raise
        except Exception as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            raise ModelError(f"the model in {located.folder} can't be loaded: {reason}") from error
    model.eval().to(where)
    pixels = max_pixels or family.default_max_pixels(processor)
    vlm = family(model, tokenizer, processor, pixels)
    return Model(located.name, vlm, _identity(located, vlm, kind))


def _config(located: Located) -> Any:
    try:
        return transformers.AutoConfig.from_pretrained(located.folder, local_files_only=True)
    except Exception as error:
        kind = "unknown"
        try:
            kind = json.loads((located.folder / "config.json").read_text("utf-8")).get("model_type", kind)
        except (ValueError, OSError):
            raise ModelError(f"{located.folder / 'config.json'} can't be read") from error
        raise ModelError(f"models of type {kind!r} are not supported", "conduit models list") from error


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ModelError("there is no CUDA device on this machine", "try: --device cpu")
    return torch.device(name)


def _dtype(name: str, located: Located, config: Any, device: torch.device) -> torch.dtype:
    if name != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[name]
    own = config.dtype if isinstance(config.dtype, torch.dtype) else torch.float32
    size = sum(path.stat().st_size for path in located.folder.glob("*.safetensors"))
    if device.type == "cpu" and (size / own.itemsize < _SMALL or own == torch.float16):
        return torch.float32
    return own


def _tokenizer(folder: Path) -> Any:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if tokenizer.chat_template is None and (folder / "chat_template.json").is_file():
        template = json.loads((folder / "chat_template.json").read_text("utf-8"))
        tokenizer.chat_template = template["chat_template"]
    if tokenizer.chat_template is None:
        raise ModelError(f"the model in {folder} has no chat template, so it can't be asked")
    return tokenizer


def _identity(located: Located, vlm: Family, dtype: torch.dtype) -> dict[str, Any]:
    processor = vlm.image_processor
    settings = {k: v for k, v in processor.to_dict().items() if not k.startswith("_")}
    context = vlm.tokenizer.apply_chat_template(
        list(BUILD_CONTEXT), tokenize=False, add_generation_prompt=False
    )
    return {
        "model": fingerprint(located),
        "model_name": located.name,
        "revision": located.revision,
        "dtype": str(dtype).removeprefix("torch."),
        "processor": {
            "class": type(processor).__name__,
            "backend": "pil",
            "settings": digest_json(settings),
        },
        "max_pixels": vlm.max_pixels,
        "context": digest_json(context),
    }


@contextmanager
def _quietly() -> Iterator[None]:
    """No progress bars and no chatter of transformers on the user's terminal."""
    from transformers.utils import logging as chatter

    level = chatter.get_verbosity()
    bars = chatter.is_progress_bar_enabled()
    chatter.set_verbosity(logging.ERROR)
    chatter.disable_progress_bar()
    try:
        yield
    finally:
        chatter.set_verbosity(level)
        if bars:
            chatter.enable_progress_bar()
