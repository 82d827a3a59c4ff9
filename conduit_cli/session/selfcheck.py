"""Does this model, served here, compute what its stock classes compute? Asked once per model, then remembered."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
import transformers
from PIL import Image, ImageDraw

from conduit_cli import policies
from conduit_cli.engine.backend import Recorder
from conduit_cli.engine.passes import forward_rows
from conduit_cli.engine.pipeline import serve
from conduit_cli.engine.prefill import prefill_page
from conduit_cli.engine.prompt import Prompt, build_prompt
from conduit_cli.engine.vlm import PageState
from conduit_cli.errors import ModelError, StoreError
from conduit_cli.families.base import Family
from conduit_cli.models.fingerprint import digest_json
from conduit_cli.models.loading import Model
from conduit_cli.reports import Listener
from conduit_store import Store

__all__ = ["Verdict", "check", "ensure_checked", "remember"]

_KIND = "check"
_SIDE = 224
_TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Largest difference of a logit, as a share of the largest logit (at least of 1)."""
_IMAGE = {"type": "image"}
_QUESTION = {"type": "text", "text": "What is in this picture?"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a model did.

    Attributes:
        difference: largest difference of any first-token logit to the stock full prefill from pixels: with
            everything refreshed behind other text, and with nothing refreshed behind the text of ingest; None
            where it did not come to that.
        tolerance: the largest that passes, in the same unit.
        problem: what is wrong, as a sentence's end; None where nothing is.
        tokens: of the longer prompt.
    """

    passed: bool
    difference: float | None
    tolerance: float
    problem: str | None
    tokens: int

    def to_dict(self) -> dict[str, Any]:
        """The verdict as JSON-ready data."""
        return asdict(self)


def check(model: Model) -> Verdict:
    """Serve a small prompt with a drawn picture, and compare with the stock model."""
    vlm, picture = model.vlm, _picture()
    tolerance = _TOLERANCE[model.dtype]
    try:
        page = prefill_page(vlm, picture)
    except ModelError as error:
        return Verdict(False, None, tolerance, error.message, 0)
    moved = _prompt(vlm, [{"type": "text", "text": "Look at this. "}, _IMAGE, _QUESTION], page)
    unseen = _unseen_layers(vlm, moved)
    if unseen:
        problem = f"the attention of {unseen} of its layers ignores the registered attention function"
        return Verdict(False, None, tolerance, problem, len(moved))
    difference, scale = 0.0, 1.0
    for prompt, ratio in ((moved, 1.0), (_prompt(vlm, [_IMAGE, _QUESTION], page), 0.0)):
        reference = vlm.stock_logits(prompt.ids, [picture])
        served = serve(vlm, prompt, policies.create("conduit"), ratio).logits
        difference = max(difference, float((served - reference).abs().nan_to_num(float("inf")).max()))
        scale = max(scale, float(reference.abs().max()))
    passed = difference <= tolerance * scale
    wrong = None if passed else "its logits are not those of its stock full prefill"
    return Verdict(passed, difference, tolerance * scale, wrong, len(moved))


def ensure_checked(model: Model, store: Store, listener: Listener) -> None:
    """Check a model that is not the bundled one, unless its verdict is in the store already.

    Raises:
        ModelError: it failed, now or before.
    """
    if model.is_bundled:
        return
    known = store.recall(_KIND, _key(model))
    if not isinstance(known, dict):
        listener.note(f"checking {model.name} against its stock classes, once")
        verdict = check(model)
        remember(model, store, verdict)
        known = verdict.to_dict()
    if not known.get("passed"):
        raise ModelError(f"{model.name} can't be served: {known.get('problem')}", f"conduit models check {model.name}")


def remember(model: Model, store: Store, verdict: Verdict) -> None:
    """Keep a verdict in the store; a store that can't keep it means that the check is done again."""
    try:
        store.remember(_KIND, _key(model), verdict.to_dict())
    except StoreError:
        return


def _key(model: Model) -> str:
    """What a verdict holds for: the model as its pages know it, the device, and the libraries that ran it."""
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    return digest_json({"identity": model.identity, "device": model.device, "engine": 1, **versions})


def _prompt(vlm: Family, content: list[dict[str, str]], page: PageState) -> Prompt:
    return build_prompt(vlm, [{"role": "user", "content": content}], [page])


def _unseen_layers(vlm: Family, prompt: Prompt) -> int:
    """Layers that never came through the observed attention."""
    cache = vlm.decoder.new_cache(len(prompt))
    cache.length = len(prompt)
    recorder = Recorder(span=prompt.query_span, attention={})
    forward_rows(vlm, prompt, cache, torch.arange(len(prompt), device=vlm.decoder.device), recorder)
    return vlm.decoder.geometry.layers - len(recorder.attention)


def _picture() -> Image.Image:
    """A drawing with edges, colours and gradients, the same everywhere."""
    image = Image.linear_gradient("L").resize((_SIDE, _SIDE)).convert("RGB")
    draw = ImageDraw.Draw(image)
    draw.rectangle((20, 30, 120, 90), fill=(200, 30, 40))
    draw.ellipse((100, 90, 210, 200), fill=(20, 90, 210), outline=(255, 255, 255), width=4)
    for step in range(8):
        draw.line((10, 120 + 12 * step, 90, 110 + 9 * step), fill=(10 * step, 250 - 20 * step, 60), width=2)
    return image
