"""Diagnostics of the score itself, on a few questions: value norms across prefixes, and true refresh gains."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from conduit_cli import policies
from conduit_cli.bench.asking import lay_out, opened
from conduit_cli.bench.quality import kl_divergence
from conduit_cli.bench.question import Question
from conduit_cli.bench.shared import Common, SharedSteps
from conduit_cli.bench.stats import spearman
from conduit_cli.engine.pipeline import Served, serve
from conduit_cli.engine.prompt import Prompt
from conduit_cli.policies.base import Evidence, Policy, Selection, TokenPolicy
from conduit_cli.session.session import Session

__all__ = ["Diagnostics"]

_BLOCKS_PER_PAGE = 12
_SCORES: dict[str, tuple[str, dict[str, Any]]] = {
    "conduit": ("conduit", {}),
    "conduit:lambda=0": ("conduit", {"lambda": 0}),
    "attention": ("attention", {}),
    "value-norm": ("value-norm", {}),
}
"""Label, and the policy and options whose score it is."""


class _Given(TokenPolicy):
    """Refreshes the tokens that it was given, whatever they are worth."""

    name = "given"

    def __init__(self, chosen: Tensor) -> None:
        self.chosen = chosen

    def select(self, evidence: Evidence) -> Selection:
        return Selection(self.chosen)


class Diagnostics:
    """Looks at questions over one session.

    Args:
        room: slots to reserve, as the measured runs do.
    """

    def __init__(self, session: Session, *, room: int) -> None:
        self.session, self.room = session, room

    def question(self, question: Question) -> dict[str, Any]:
        """Rank correlations of one question.

        `norms` is that of stored value norms with those after full prefill of the whole prompt, mean over layers;
        `drift` that of the score with how far each token's values really moved. `gain` is that of each score, summed
        over a block, with the drop of KL(full || stale) when only this block is refreshed; a block is a twelfth of
        a page, in reading order.
        """
        with opened(self.session, question) as pages:
            prompt, common = lay_out(self.session, question, pages), Common()
            full = self._served(prompt, common, policies.create("full"), 1.0)
            stale = self._served(prompt, common, policies.create("reuse"), 0.0)
            slots = prompt.visual_slots
            new = torch.stack([layer[0][:, slots] for layer in full.cache.values])
            old = torch.stack([layer[0][:, slots] for layer in stale.cache.values])
            norms = new.float().square().sum((1, 3)).sqrt()
            moved = (new - old).float().square().sum((1, 3)).sqrt().mean(0)
            scores = self._scores(prompt, common)
            start = kl_divergence(full.logits, stale.logits)
            blocks = _blocks(prompt)
            gains = []
            for block in blocks:
                served = self._served(prompt, common, _Given(block), 0.0)
                gains.append(start - kl_divergence(full.logits, served.logits))
        pairs = zip(norms.tolist(), full.norms.tolist(), strict=True)
        return {
            "norms": _known(_mean([spearman(a, b) for a, b in pairs])),
            "drift": {name: _known(spearman(score.tolist(), moved.tolist())) for name, score in scores.items()},
            "gain": {
                name: _known(spearman([float(score[block].sum()) for block in blocks], gains))
                for name, score in scores.items()
            },
            "kl_reuse": start,
            "harmful_blocks": sum(gain < 0 for gain in gains) / len(gains),
        }

    def _scores(self, prompt: Prompt, common: Common) -> dict[str, Tensor]:
        """[N_vis] of every score that is compared; their refresh is thrown away."""
        found = {}
        for label, (name, options) in _SCORES.items():
            selection = self._served(prompt, common, policies.create(name, options), 0.0).selection
            assert selection.scores is not None
            found[label] = selection.scores
        return found

    def _served(self, prompt: Prompt, common: Common, policy: Policy, ratio: float) -> Served:
        """All of these have placement and scoring in common."""
        vlm = self.session.model.vlm
        return serve(vlm, prompt, policy, ratio, steps=SharedSteps(vlm, prompt, common, room=self.room))


def _blocks(prompt: Prompt) -> list[Tensor]:
    """Each page's visual tokens, cut into equal runs."""
    pages = [(prompt.page_of == image).nonzero()[:, 0] for image in range(len(prompt.states))]
    return [block for page in pages for block in page.tensor_split(min(_BLOCKS_PER_PAGE, len(page)))]


def _mean(values: list[float]) -> float:
    known = [value for value in values if value == value]
    return sum(known) / len(known) if known else float("nan")


def _known(value: float) -> float | None:
    """None where a rank correlation is not defined; JSON has no NaN."""
    return value if value == value else None
