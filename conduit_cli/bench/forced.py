"""What a served prompt predicts along a given answer, in one pass; and its own answer, with few passes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from conduit_cli.engine.backend import PromptCache
from conduit_cli.engine.decode import append
from conduit_cli.engine.pipeline import Served
from conduit_cli.engine.prompt import Prompt
from conduit_cli.engine.vlm import VisionLanguageModel

__all__ = ["forced_logits", "greedy_answer"]


def forced_logits(model: VisionLanguageModel, prompt: Prompt, served: Served, ids: Sequence[int]) -> Tensor:
    """Logits [n + 1, vocab]: of the first answer token, and of the one after each of `ids` [n] when it is fed.

    The answer's K/V are written after the prompt's; what is decoded later overwrites them. The cache needs room
    for n slots.
    """
    if not ids:
        return served.logits[None]
    return torch.cat([served.logits[None], append(model, prompt, served.cache, ids)])


def greedy_answer(
    model: VisionLanguageModel,
    prompt: Prompt,
    cache: PromptCache,
    ids: Sequence[int],
    logits: Tensor,
    guesses: Sequence[Sequence[int]],
    limit: int,
) -> list[int]:
    """The answer that `decode` gives at temperature 0, in fewer passes: guessed tokens are fed along with certain ones.

    A guess is only kept where it is what the model would have said, so that it costs or saves time and nothing else.

    Args:
        cache: holds the prompt and `ids`, and has room for `limit` tokens.
        ids: how the answer begins, without a stop id.
        logits: [vocab] of the token after them.
        guesses: answers that it may turn out to be.
        limit: most tokens of an answer.
    """
    answer = list(ids)
    while len(answer) < limit:
        token = int(logits.argmax())
        if token in model.stop_ids:
            break
        answer.append(token)
        if len(answer) == limit:
            break
        start = len(answer) - 1
        guess = next((list(g[start + 1 : limit]) for g in guesses if list(g[: start + 1]) == answer), [])
        said = append(model, prompt, cache, [token, *guess], start)
        likeliest = said.argmax(-1).tolist()
        wrong = (n for n, token in enumerate(guess) if likeliest[n] != token or token in model.stop_ids)
        right = next(wrong, len(guess))
        answer += guess[:right]
        logits = said[right]
    return answer
