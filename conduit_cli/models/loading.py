"""Loading: a name becomes a family object that the engine can run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from conduit_cli.engine.prefill import BUILD_CONTEXT
from conduit_cli.errors import ModelError, first_line
from conduit_cli.families import family_for
from conduit_cli.families.base import Family
from conduit_cli.models.fingerprint import digest_json, fingerprint
from conduit_cli.models.locate import Located, locate
from conduit_cli.models.names import BUNDLED
from conduit_cli.models.reading import (
    device_for,
    dtype_for,
    image_processor_of,
    quantization,
    read_model_config,
    tokenizer_of,
)

__all__ = ["Model", "load"]


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
    config = read_model_config(located)
    family = family_for(config)
    quantized = quantization(config)
    where = device_for(device)
    kind = dtype_for(dtype, located, config, where)
    placing = {"device_map": {"": where}} if quantized else {}
    with _quietly():
        try:
            model, told = transformers.AutoModelForImageTextToText.from_pretrained(
                located.folder,
                dtype=kind,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
                **placing,
            )
            tokenizer = tokenizer_of(located.folder)
            processor = image_processor_of(located)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"the model in {located.folder} can't be loaded: {first_line(error)}") from error
    _refuse_invented(located, told)
    model.eval()
    if not quantized:  # weights that are packed are placed as they are read
        model.to(where)
    pixels = max_pixels or family.default_max_pixels(processor)
    vlm = family(model, tokenizer, processor, pixels)
    return Model(located.name, vlm, _identity(located, vlm, kind))


def _refuse_invented(located: Located, told: dict[str, Any]) -> None:
    """What a checkpoint lacks transformers makes up at random; the answers would be random, too.

    Raises:
        ModelError: a weight is missing or of another shape.
    """
    wrong = sorted([*told.get("missing_keys", ()), *(key for key, *_ in told.get("mismatched_keys", ()))])
    if wrong:
        raise ModelError(
            f"the weights in {located.folder} are not those of its config.json: {len(wrong)} are missing, "
            f"the first is {wrong[0]}",
            "fetch the model again",
        )


def _identity(located: Located, vlm: Family, dtype: torch.dtype) -> dict[str, Any]:
    processor = vlm.image_processor
    settings = {k: v for k, v in processor.to_dict().items() if not k.startswith("_")}
    context = _build_context(located, vlm.tokenizer)
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


def _build_context(located: Located, tokenizer: Any) -> dict[str, Any]:
    """The prompt under which pages are stored, as text and as ids.

    Raises:
        ModelError: the chat template can't make it.
    """
    try:
        text = tokenizer.apply_chat_template(list(BUILD_CONTEXT), tokenize=False, add_generation_prompt=False)
    except Exception as error:
        raise ModelError(f"the chat template of {located.folder} can't be used: {first_line(error)}") from error
    return {"text": text, "ids": tokenizer(text)["input_ids"]}


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
