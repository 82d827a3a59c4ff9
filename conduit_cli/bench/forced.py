"""What a served prompt predicts along a given answer, in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from conduit_cli.engine import backend
from conduit_cli.engine.pipeline import Served
from conduit_cli.engine.prompt import Prompt
from conduit_cli.engine.vlm import VisionLanguageModel

__all__ = ["forced_logits"]


def forced_logits(model: VisionLanguageModel, prompt: Prompt, served: Served, ids: Sequence[int]) -> Tensor:
    """Logits [n + 1, vocab]: of the first answer token, and of the one after each of `ids` [n] when it is fed.

    The answer's K/V are written after the prompt's; what is decoded later overwrites them. The cache needs room
    for n slots.
    """
    if not ids:
        return served.logits[None]
    decoder = model.decoder
    fed = torch.tensor(list(ids), device=decoder.device)
    slots = torch.arange(len(prompt), len(prompt) + len(fed), device=decoder.device)
    positions = (prompt.next_position + torch.arange(len(fed), device=decoder.device)).expand(
        prompt.positions.shape[0], -1
    )
    image_of = torch.cat([prompt.image_of, prompt.image_of.new_full((len(fed),), -1)])
    served.cache.length = len(prompt) + len(fed)
    hidden = backend.run_rows(
        decoder.text_model,
        decoder.embed(fed),
        positions,
        model.masks(slots, image_of),
        served.cache,
        slots,
        extras=model.extras(slots, image_of, prompt.states),
    )
    return torch.cat([served.logits[None], decoder.logits(hidden)])
