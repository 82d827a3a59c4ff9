"""What a cell takes: seconds by stage over complete serves, and the vision tower's share of full prefill."""

from __future__ import annotations

import time
from collections.abc import Sequence

from torch.utils.flop_counter import FlopCounterMode

from conduit_cli import policies
from conduit_cli.bench.asking import lay_out
from conduit_cli.bench.contenders import Cell
from conduit_cli.bench.question import Question
from conduit_cli.engine.pipeline import serve
from conduit_cli.engine.vlm import VisionLanguageModel
from conduit_cli.session.pages import PageRef
from conduit_cli.session.session import Session

__all__ = ["STAGES", "Stopwatch", "vision_cost"]

STAGES = ("load", "place", "score", "select", "refresh", "first_token")


class Stopwatch:
    """Takes the cells' times in turn; the cell that goes first rotates, so that none is always warm.

    Args:
        max_new_tokens: room that a serve leaves for the answer, which isn't decoded.
    """

    def __init__(self, session: Session, cells: Sequence[Cell], max_new_tokens: int) -> None:
        self._session, self._cells, self._room = session, list(cells), max_new_tokens
        self._turn = 0

    def take(self, question: Question, pages: Sequence[PageRef], repeats: int) -> dict[str, list[dict[str, float]]]:
        """Seconds per stage and to the first token (`ttft`), by cell, of each repeat."""
        times: dict[str, list[dict[str, float]]] = {cell.key: [] for cell in self._cells}
        for _ in range(repeats):
            shift = self._turn % len(self._cells)
            self._turn += 1
            for cell in self._cells[shift:] + self._cells[:shift]:
                times[cell.key].append(self._serve(question, pages, cell))
        return times

    def _serve(self, question: Question, pages: Sequence[PageRef], cell: Cell) -> dict[str, float]:
        started = time.perf_counter()
        prompt = lay_out(self._session, question, pages)
        loaded = time.perf_counter() - started
        policy = policies.create(cell.contender.name, cell.contender.options)
        served = serve(self._session.model.vlm, prompt, policy, cell.ratio, room=self._room)
        total = time.perf_counter() - started
        return {"ttft": total, "load": loaded, **{k: v for k, v in served.timings.items() if k in STAGES}}


def vision_cost(vlm: VisionLanguageModel, ref: PageRef) -> tuple[int, float]:
    """FLOPs and seconds of the vision tower on one page; drawing the page is not counted."""
    image = ref.document.render(ref.number, vlm.fit).image
    started = time.perf_counter()
    vlm.encode_image(image)
    seconds = time.perf_counter() - started
    with FlopCounterMode(display=False) as counter:
        vlm.encode_image(image)
    return counter.get_total_flops(), seconds
