"""The two forwards of an answer: scoring over the stale cache, and refresh of chosen rows."""

from __future__ import annotations

import torch
from torch import Tensor

from conduit_cli.engine import backend
from conduit_cli.engine.backend import PromptCache
from conduit_cli.engine.prompt import Prompt
from conduit_cli.engine.vlm import VisionLanguageModel

__all__ = ["forward_rows", "score", "value_norms"]


def forward_rows(
    model: VisionLanguageModel,
    prompt: Prompt,
    cache: PromptCache,
    rows: Tensor,
    recorder: backend.Recorder | None = None,
    narrow: backend.Narrow | None = None,
) -> Tensor:
    """Recompute the prompt's tokens at slots `rows` [R] (ascending); the last row's hidden state [1, hidden].

    Text rows start from their token embeddings, visual rows from their stored vision embeddings, so
    the vision tower never runs again. New K/V overwrite the prompt's copy, never the store. With
    `narrow`, rows may be dropped on the way, never the last.
    """
    decoder = model.decoder
    owner = prompt.image_of[rows]
    embeds = decoder.embed(prompt.ids[rows].masked_fill(owner >= 0, 0)).clone()  # an image's id may have no embedding
    for image in sorted(set(owner[owner >= 0].tolist())):
        here = (owner == image).nonzero()[:, 0]
        within = torch.searchsorted(prompt.slots_of(image), rows[here])
        features = prompt.states[image].tensor("embeddings").to(decoder.device, decoder.dtype)
        embeds[here] = features[within]
    return backend.run_rows(
        decoder.text_model,
        embeds,
        prompt.positions[:, rows],
        model.masks(rows, prompt.image_of),
        cache,
        rows,
        recorder=recorder,
        extras=model.extras(rows, prompt.image_of, prompt.states),
        narrow=narrow,
        last_row_only=True,
    )


def score(
    model: VisionLanguageModel, prompt: Prompt, cache: PromptCache, span: int | None = None
) -> tuple[Tensor, Tensor]:
    """Run all text tokens over the placed cache and record the query span's attention.

    Args:
        span: of the query span only so many last tokens are asked; None means all.

    Returns:
        hidden [1, hidden] of the prompt's last row and attention A [L, N_vis] (METHOD.md section 4).
    """
    rows = prompt.text_slots
    asked = prompt.query_span if span is None else prompt.query_span[-span:]
    recorder = backend.Recorder(span=torch.searchsorted(rows, asked), attention={})
    hidden = forward_rows(model, prompt, cache, rows, recorder)
    layers = range(model.decoder.geometry.layers)
    attention = torch.stack([recorder.attention[layer][prompt.visual_slots] for layer in layers])
    return hidden, attention


def value_norms(prompt: Prompt) -> Tensor:
    """Cached value norms [L, N_vis] of all pages, in prompt order."""
    norms = torch.cat([state.tensor("value_norms") for state in prompt.states], dim=1)
    return norms.to(prompt.ids.device)
