"""Prefill of one page alone: what `ingest` computes and the store keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from conduit_cli.engine import backend
from conduit_cli.engine.place import rotate
from conduit_cli.engine.vlm import EncodedImage, Message, VisionLanguageModel
from conduit_cli.errors import ModelError

__all__ = ["BUILD_CONTEXT", "FreshPage", "build_context", "prefill_page", "splice"]

BUILD_CONTEXT: Sequence[Message] = ({"role": "user", "content": [{"type": "image"}]},)
"""The generic prompt under which every page is prefilled: the model's own single-image template."""


@dataclass(frozen=True)
class FreshPage:
    """A page's state in memory, with the tensors of METHOD.md section 2; satisfies `PageState`."""

    tensors: Mapping[str, Tensor]
    meta: Mapping[str, Any]

    @property
    def names(self) -> Sequence[str]:
        """Names of the tensors held."""
        return list(self.tensors)

    def tensor(self, name: str) -> Tensor:
        """A whole tensor."""
        return self.tensors[name]

    def layer(self, name: str, layer: int) -> Tensor:
        """One layer of a stacked tensor."""
        return self.tensors[name][layer]


def build_context(model: VisionLanguageModel, layouts: Sequence[Mapping[str, Any]]) -> tuple[Tensor, Tensor]:
    """The build prompt up to the image's last token: ids [N] and image index [N]."""
    ids, image_of = model.tokenize(BUILD_CONTEXT, layouts, generate=False)
    end = int((image_of >= 0).nonzero()[-1, 0]) + 1
    return ids[:end], image_of[:end]


def splice(model: VisionLanguageModel, ids: Tensor, image_of: Tensor, images: Sequence[Tensor]) -> Tensor:
    """Input embeddings [N, hidden]: text tokens embedded, visual tokens taken from `images` [n_j, hidden]."""
    decoder = model.decoder
    embeds = decoder.embed(torch.where(image_of >= 0, torch.zeros_like(ids), ids)).clone()
    for image, features in enumerate(images):
        embeds[image_of == image] = features.to(decoder.device, decoder.dtype)
    return embeds


def prefill_page(model: VisionLanguageModel, image: Image.Image) -> FreshPage:
    """Run vision tower and decoder over one page under the build context.

    Raises:
        ModelError: the model's rotary embedding is not the one that placement undoes.
    """
    encoded = model.encode_image(image)
    ids, image_of = build_context(model, [encoded.layout])
    decoder, g = model.decoder, model.decoder.geometry
    positions = model.positions(ids, image_of, [encoded.layout]).to(decoder.device)
    ids, image_of = ids.to(decoder.device), image_of.to(decoder.device)
    slots = torch.arange(len(ids), device=decoder.device)
    cache = decoder.new_cache(len(ids))
    cache.length = len(ids)
    tap = backend.KeyTap(decoder.text_model, g.kv_heads, g.head_dim)
    page = FreshPage(_inputs(encoded), _meta(encoded, image_of))
    with tap.listening():
        backend.run_rows(
            decoder.text_model,
            splice(model, ids, image_of, [encoded.embeddings]),
            positions,
            model.masks(slots, image_of),
            cache,
            slots,
            extras=model.extras(slots, image_of, [page]),
        )
    visual = (image_of >= 0).nonzero()[:, 0]
    keys = [tap.keys[layer][:, visual] for layer in range(g.layers)]
    for layer, (cos, sin) in enumerate(decoder.rotary(positions)):
        _check_rotary(rotate(keys[layer], cos[visual], sin[visual]), cache.keys[layer][0][:, visual])
    values = torch.stack([cache.values[layer][0][:, visual] for layer in range(g.layers)])
    tensors = {
        "keys": torch.stack(keys),
        "values": values,
        "value_norms": values.float().square().sum((1, 3)).sqrt(),
        **page.tensors,
    }
    return FreshPage({name: t.contiguous().cpu() for name, t in tensors.items()}, page.meta)


def _inputs(encoded: EncodedImage) -> dict[str, Tensor]:
    return {"embeddings": encoded.embeddings, **encoded.extras}


def _meta(encoded: EncodedImage, image_of: Tensor) -> dict[str, Any]:
    tokens = int((image_of >= 0).sum())
    if tokens != encoded.embeddings.shape[0]:
        raise ModelError(f"the vision tower gave {encoded.embeddings.shape[0]} tokens where the prompt has {tokens}")
    return {"layout": dict(encoded.layout), "tokens": tokens, "grid": encoded.grid and list(encoded.grid)}


def _check_rotary(placed: Tensor, computed: Tensor) -> None:
    """A stored key, placed where it was computed, must be the key that the model used."""
    if not torch.equal(placed, computed) and not torch.allclose(placed, computed, rtol=1e-2, atol=1e-4):
        raise ModelError("this model's rotary embedding can't be undone exactly, so its keys can't be moved")
