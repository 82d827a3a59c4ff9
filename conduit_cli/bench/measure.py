"""One question under every policy and ratio: its record of plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from conduit_cli import policies
from conduit_cli.bench.asking import lay_out, opened
from conduit_cli.bench.contenders import REFERENCE, Cell
from conduit_cli.bench.forced import forced_logits, greedy_answer
from conduit_cli.bench.quality import anls, exact_match, kl_divergence, negative_log_likelihood
from conduit_cli.bench.question import Question
from conduit_cli.bench.shared import Common, SharedSteps
from conduit_cli.bench.timing import Stopwatch, vision_cost
from conduit_cli.engine.decode import decode
from conduit_cli.engine.pipeline import Served, serve
from conduit_cli.engine.prompt import Prompt
from conduit_cli.session.limits import check_length, check_memory
from conduit_cli.session.pages import PageRef
from conduit_cli.session.session import Session
from conduit_cli.session.shares import overlap_of, page_shares

__all__ = ["Meter", "Reference"]


@dataclass(frozen=True)
class Reference:
    """Full prefill of one question: first logits [vocab], answer, and the tokens [n] it is made of, stop included."""

    logits: Tensor
    answer: str
    ids: tuple[int, ...]
    targets: Tensor


@dataclass(frozen=True)
class Answered:
    """What a cell says: logits [n, vocab] along the reference's answer, and the tokens of its own greedy one."""

    logits: Tensor
    ids: tuple[int, ...]


class Meter:
    """Measures questions over one session.

    Args:
        cells: what is compared; the reference is among them.
        repeats: timed runs of every cell; 0 leaves times out.
        max_new_tokens: longest answer.
    """

    def __init__(self, session: Session, cells: Sequence[Cell], *, repeats: int, max_new_tokens: int) -> None:
        self.session, self.cells = session, list(cells)
        self.repeats, self.max_new_tokens = repeats, max_new_tokens
        self._stopwatch = Stopwatch(session, cells, max_new_tokens)

    def question(self, question: Question, *, count: bool = True, timed: bool = True) -> dict[str, Any]:
        """The question's record.

        Args:
            count: also count FLOPs operation by operation, which takes longer than the passes of a small model.
            timed: also take times, over complete serves.

        Raises:
            InputError: a page can't be read, or the prompt is too long.
        """
        vlm = self.session.model.vlm
        with opened(self.session, question) as pages:
            prompt = lay_out(self.session, question, pages)
            check_length(vlm, len(prompt) + self.max_new_tokens, len(pages))
            check_memory(vlm, len(prompt) + self.max_new_tokens)
            common = Common(count)
            reference = self._reference(prompt, common)
            runs, chosen = {}, {}
            for cell in self.cells:
                run, served = self._quality(question, pages, prompt, cell, reference, common)
                runs[cell.key], chosen[cell.key] = run, frozenset(served.selection.chosen.tolist())
            times = self._stopwatch.take(question, pages, self.repeats if timed else 0)
            vision = [vision_cost(vlm, ref) for ref in pages] if count or (timed and self.repeats) else []
        for key, repeats in times.items():
            runs[key]["times"] = repeats
        return {
            "question": question.name,
            "kind": question.kind,
            "cluster": question.cluster,
            "pages": len(pages),
            "visual": len(prompt.visual_slots),
            "text": len(prompt.text_slots),
            "answered": bool(question.answers),
            "full_answer": reference.answer,
            "vision": {"flops": sum(v[0] for v in vision), "seconds": sum(v[1] for v in vision)} if vision else None,
            "runs": runs,
            "overlap": self._overlaps(chosen),
        }

    def _reference(self, prompt: Prompt, common: Common) -> Reference:
        """Full prefill's logits and greedy answer."""
        vlm = self.session.model.vlm
        steps = SharedSteps(vlm, prompt, common, room=self.max_new_tokens)
        served = serve(vlm, prompt, policies.create(REFERENCE), 1.0, steps=steps)
        ids = tuple(decode(vlm, prompt, served.cache, served.logits, max_new_tokens=self.max_new_tokens))
        told = forced_logits(vlm, prompt, served, ids)
        targets = list(ids)
        if len(ids) < self.max_new_tokens:  # it stopped by itself: with the likeliest of the stop tokens
            targets.append(max(vlm.stop_ids, key=lambda token: float(told[-1][token])))
        reference = Reference(served.logits, vlm.decode_text(ids), ids, torch.tensor(targets, device=told.device))
        common.answers[steps.path] = Answered(told[: len(targets)], ids)
        return reference

    def _answer(self, prompt: Prompt, reference: Reference, steps: SharedSteps, served: Served) -> Answered:
        """Logits along the reference's answer, and the cell's own; whatever has the same K/V has the same."""
        known: dict[Any, Answered] = steps.common.answers
        if steps.path not in known:
            vlm = self.session.model.vlm
            logits = forced_logits(vlm, prompt, served, reference.ids)[: len(reference.targets)]
            agrees = (logits.argmax(-1) == reference.targets).tolist()
            ids = reference.ids
            if not all(agrees):  # up to there greedy decoding gives the very same tokens
                same = agrees.index(False)
                guesses = [answered.ids for answered in known.values()]
                ids = tuple(
                    greedy_answer(vlm, prompt, served.cache, ids[:same], logits[same], guesses, self.max_new_tokens)
                )
            known[steps.path] = Answered(logits, ids)
        return known[steps.path]

    def _quality(
        self,
        question: Question,
        pages: Sequence[PageRef],
        prompt: Prompt,
        cell: Cell,
        reference: Reference,
        common: Common,
    ) -> tuple[dict[str, Any], Served]:
        """Scores, fidelity, FLOPs, bytes and allocation of one cell."""
        vlm = self.session.model.vlm
        policy = policies.create(cell.contender.name, cell.contender.options)
        steps = SharedSteps(vlm, prompt, common, room=self.max_new_tokens)
        served = serve(vlm, prompt, policy, cell.ratio, steps=steps)
        answered = self._answer(prompt, reference, steps, served)
        answer = vlm.decode_text(answered.ids)
        run = {
            "answer": answer,
            "em": exact_match(answer, question.answers) if question.answers else None,
            "anls": anls(answer, question.answers) if question.answers else None,
            "kl": kl_divergence(reference.logits, served.logits),
            "nll": negative_log_likelihood(answered.logits, reference.targets),
            "top1": float(served.logits.argmax() == reference.logits.argmax()),
            "same": float(answer == reference.answer),
            "flops": steps.counted if common.count else None,
            "analytic_flops": served.flops,
            "full_flops": served.full_flops,
            "bytes": steps.nbytes,
            "refreshed": sum(served.rows_per_layer) / len(served.rows_per_layer),
            "on_answer": _on_answer(question, pages, prompt, served),
        }
        return run, served

    def _overlaps(self, chosen: dict[str, frozenset[int]]) -> dict[str, float]:
        """Intersection over union of what two cells of one ratio refreshed, as `a@r|b@r`."""
        found = {}
        for a, b in combinations(self.cells, 2):
            if a.ratio == b.ratio and 0 < a.ratio < 1:
                found[f"{a.key}|{b.key}"] = overlap_of(chosen[a.key], chosen[b.key])
        return found


def _on_answer(question: Question, pages: Sequence[PageRef], prompt: Prompt, served: Served) -> float | None:
    """Share of the recomputed work that fell on the answer's pages; None where they or the work are not known."""
    if not question.answer_pages or not served.rows_per_layer or not any(served.rows_per_layer):
        return None
    several = len({id(ref.document) for ref in pages}) > 1
    shares = page_shares(pages, prompt, served)
    found = [
        share.budget_share
        for place, share in enumerate(shares, 1)
        if (place if several else share.page) in question.answer_pages
    ]
    return sum(found) if found else None
