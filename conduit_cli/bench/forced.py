"""What a served prompt predicts along a given answer, in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from conduit_cli.engine.decode import append
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
    return torch.cat([served.logits[None], append(model, prompt, served.cache, ids)])
