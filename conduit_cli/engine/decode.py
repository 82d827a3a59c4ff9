"""Decoding with ordinary KV caching after the refresh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from conduit_cli.engine import backend
from conduit_cli.engine.backend import PromptCache
from conduit_cli.engine.prompt import Prompt
from conduit_cli.engine.vlm import VisionLanguageModel

__all__ = ["append", "decode", "decode_step", "pick"]


def pick(logits: Tensor, temperature: float, generator: torch.Generator | None) -> int:
    """The next id from logits [vocab]: the largest at temperature 0, else a sample."""
    if temperature <= 0:
        return int(logits.argmax())
    weights = (logits / temperature).softmax(-1).cpu()
    return int(torch.multinomial(weights, 1, generator=generator))


def append(
    model: VisionLanguageModel, prompt: Prompt, cache: PromptCache, tokens: Sequence[int], step: int = 0
) -> Tensor:
    """Append answer tokens number `step` (from 0) and on, in one pass; logits [n, vocab] of the one after each.

    Their slots follow the prompt's last slot, their positions the prompt's largest position: with M-RoPE
    these differ. The cache needs room for them.
    """
    decoder = model.decoder
    number = step + torch.arange(len(tokens), device=decoder.device)
    slots = len(prompt) + number
    cache.length = len(prompt) + step + len(tokens)
    image_of = torch.cat([prompt.image_of, prompt.image_of.new_full((step + len(tokens),), -1)])
    hidden = backend.run_rows(
        decoder.text_model,
        decoder.embed(torch.tensor(list(tokens), device=decoder.device)),
        (prompt.next_position + number).expand(prompt.positions.shape[0], -1),
        model.masks(slots, image_of),
        cache,
        slots,
        extras=model.extras(slots, image_of, prompt.states),
    )
    return decoder.logits(hidden)


def decode_step(model: VisionLanguageModel, prompt: Prompt, cache: PromptCache, token: int, step: int) -> Tensor:
    """Append answer token number `step` (from 0) to the cache; logits [vocab] of the one after it."""
    return append(model, prompt, cache, [token], step)[0]


def decode(
    model: VisionLanguageModel,
    prompt: Prompt,
    cache: PromptCache,
    first: Tensor,
    *,
    max_new_tokens: int,
    temperature: float = 0.0,
    seed: int | None = None,
) -> Iterator[int]:
    """Yield generated ids from the first token's logits [vocab] until a stop id or the limit.

    The stop id itself is not yielded. `cache` needs room for `max_new_tokens` more slots.
    """
    generator = torch.Generator().manual_seed(seed) if seed is not None else None
    logits = first
    for step in range(max_new_tokens):
        token = pick(logits, temperature, generator)
        if token in model.stop_ids:
            return
        yield token
        if step + 1 < max_new_tokens:
            logits = decode_step(model, prompt, cache, token, step)
