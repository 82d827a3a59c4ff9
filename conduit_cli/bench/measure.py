"""One question under every policy and ratio: its record of plain numbers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from conduit_cli import policies
from conduit_cli.bench.asking import CountedState, lay_out, opened
from conduit_cli.bench.contenders import REFERENCE, Cell
from conduit_cli.bench.forced import forced_logits
from conduit_cli.bench.quality import anls, exact_match, kl_divergence, negative_log_likelihood
from conduit_cli.bench.question import Question
from conduit_cli.engine.decode import decode
from conduit_cli.engine.pipeline import Served, serve
from conduit_cli.engine.prompt import Prompt
from conduit_cli.session.limits import check_length, check_memory
from conduit_cli.session.pages import PageRef
from conduit_cli.session.session import Session
from conduit_cli.session.shares import overlap_of, page_shares

__all__ = ["STAGES", "Meter", "Reference"]

STAGES = ("load", "place", "score", "select", "refresh", "first_token")


@dataclass(frozen=True)
class Reference:
    """Full prefill of one question: first logits [vocab], answer, and the tokens [n] it is made of, stop included."""

    logits: Tensor
    answer: str
    ids: tuple[int, ...]
    targets: Tensor


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
        self._turn = 0

    def question(self, question: Question, *, count: bool = True) -> dict[str, Any]:
        """The question's record.

        Args:
            count: also count FLOPs operation by operation, which takes longer than the passes of a small model.

        Raises:
            InputError: a page can't be read, or the prompt is too long.
        """
        vlm = self.session.model.vlm
        with opened(self.session, question) as pages:
            prompt = lay_out(self.session, question, pages)
            check_length(vlm, len(prompt) + self.max_new_tokens, len(pages))
            check_memory(vlm, len(prompt) + self.max_new_tokens)
            reference, _ = self._reference(prompt)
            runs, chosen = {}, {}
            for cell in self.cells:
                run, served = self._quality(question, pages, prompt, cell, reference, count)
                runs[cell.key], chosen[cell.key] = run, served.selection.chosen
            times = self._times(question, pages)
            vision = [self._vision(ref) for ref in pages] if count or self.repeats else []
        for key, timed in times.items():
            runs[key]["times"] = timed
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

    def _reference(self, prompt: Prompt) -> tuple[Reference, Served]:
        """Full prefill's logits and greedy answer."""
        vlm = self.session.model.vlm
        served = serve(vlm, prompt, policies.create(REFERENCE), 1.0, room=self.max_new_tokens)
        ids = tuple(self._decoded(prompt, served))
        targets = list(ids)
        if len(ids) < self.max_new_tokens:  # it stopped by itself: with the likeliest of the stop tokens
            last = forced_logits(vlm, prompt, served, ids)[-1]
            targets.append(max(vlm.stop_ids, key=lambda token: float(last[token])))
        told = torch.tensor(targets, device=served.logits.device)
        return Reference(served.logits, vlm.decode_text(ids), ids, told), served

    def _decoded(self, prompt: Prompt, served: Served) -> list[int]:
        vlm = self.session.model.vlm
        return list(decode(vlm, prompt, served.cache, served.logits, max_new_tokens=self.max_new_tokens))

    def _quality(
        self,
        question: Question,
        pages: Sequence[PageRef],
        prompt: Prompt,
        cell: Cell,
        reference: Reference,
        count: bool,
    ) -> tuple[dict[str, Any], Served]:
        """Scores, fidelity, FLOPs, bytes and allocation of one cell."""
        vlm = self.session.model.vlm
        before = _bytes_read(prompt)
        policy = policies.create(cell.contender.name, cell.contender.options)
        counter = FlopCounterMode(display=False)
        with counter if count else nullcontext():
            served = serve(vlm, prompt, policy, cell.ratio, room=self.max_new_tokens)
        read = _bytes_read(prompt) - before
        logits = forced_logits(vlm, prompt, served, reference.ids)[: len(reference.targets)]
        agrees = logits.argmax(-1) == reference.targets
        # where every step agrees, greedy decoding would give the very same answer
        answer = reference.answer if bool(agrees.all()) else vlm.decode_text(self._decoded(prompt, served))
        run = {
            "answer": answer,
            "em": exact_match(answer, question.answers) if question.answers else None,
            "anls": anls(answer, question.answers) if question.answers else None,
            "kl": kl_divergence(reference.logits, served.logits),
            "nll": negative_log_likelihood(logits, reference.targets),
            "top1": float(served.logits.argmax() == reference.logits.argmax()),
            "same": float(answer == reference.answer),
            "flops": counter.get_total_flops() if count else None,
            "analytic_flops": served.flops,
            "full_flops": served.full_flops,
            "bytes": read,
            "refreshed": sum(served.rows_per_layer) / len(served.rows_per_layer),
            "on_answer": _on_answer(question, pages, prompt, served),
        }
        return run, served

    def _times(self, question: Question, pages: Sequence[PageRef]) -> dict[str, list[dict[str, float]]]:
        """Seconds per stage of each repeat; the cell that goes first rotates, so that none is always warm."""
        times: dict[str, list[dict[str, float]]] = {cell.key: [] for cell in self.cells}
        for _ in range(self.repeats):
            shift = self._turn % len(self.cells)
            self._turn += 1
            for cell in self.cells[shift:] + self.cells[:shift]:
                times[cell.key].append(self._timed(question, pages, cell))
        return times

    def _timed(self, question: Question, pages: Sequence[PageRef], cell: Cell) -> dict[str, float]:
        started = time.perf_counter()
        prompt = lay_out(self.session, question, pages)
        loaded = time.perf_counter() - started
        policy = policies.create(cell.contender.name, cell.contender.options)
        served = serve(self.session.model.vlm, prompt, policy, cell.ratio, room=self.max_new_tokens)
        total = time.perf_counter() - started
        return {"ttft": total, "load": loaded, **{k: v for k, v in served.timings.items() if k in STAGES}}

    def _vision(self, ref: PageRef) -> tuple[int, float]:
        """FLOPs and seconds of the vision tower on one page; drawing the page is not counted."""
        vlm = self.session.model.vlm
        image = ref.document.render(ref.number, vlm.fit).image
        started = time.perf_counter()
        vlm.encode_image(image)
        seconds = time.perf_counter() - started
        with FlopCounterMode(display=False) as counter:
            vlm.encode_image(image)
        return counter.get_total_flops(), seconds

    def _overlaps(self, chosen: dict[str, Tensor]) -> dict[str, float]:
        """Intersection over union of what two cells of one ratio refreshed, as `a@r|b@r`."""
        found = {}
        for a, b in combinations(self.cells, 2):
            if a.ratio == b.ratio and 0 < a.ratio < 1:
                found[f"{a.key}|{b.key}"] = overlap_of(chosen[a.key].tolist(), chosen[b.key].tolist())
        return found


def _bytes_read(prompt: Prompt) -> int:
    return sum(state.nbytes for state in prompt.states if isinstance(state, CountedState))


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
