"""What a run is made of, and one question's record under it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conduit_cli import policies
from conduit_cli.bench.contenders import Cell, Contender, cells
from conduit_cli.bench.diagnose import Diagnostics
from conduit_cli.bench.measure import Meter
from conduit_cli.bench.question import Question
from conduit_cli.engine.pipeline import check_policy
from conduit_cli.engine.vlm import VisionLanguageModel
from conduit_cli.errors import InputError, ModelError, UsageError
from conduit_cli.session.session import Session

__all__ = ["Asker", "Plan", "Task", "fitting"]


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        contenders, ratios: every policy at every ratio; those without a budget once.
        repeats: timed runs of each; 0 leaves times out.
        seed: of the sample of questions, the resampling and the sign flips.
        counted: on how many questions FLOPs are counted operation by operation; by formula they are known on all.
        timed: on how many questions times are taken.
        diagnostics: of how many questions the value norms and true refresh gains are looked at as well.
        left_out: policies that were not named one by one and that this model can't be served under, and why.
    """

    contenders: Sequence[Contender]
    ratios: Sequence[float]
    repeats: int = 3
    max_new_tokens: int = 32
    seed: int = 0
    counted: int = 20
    timed: int = 20
    diagnostics: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)
    cells: list[Cell] = field(init=False)

    def __post_init__(self) -> None:
        for contender in self.contenders:
            policies.create(contender.name, contender.options)  # refuse its options before any work
        object.__setattr__(self, "cells", cells(self.contenders, self.ratios))

    def tasks(self, questions: Sequence[Question]) -> list[Task]:
        """The questions, and what is done with the first ones besides."""
        timed = self.timed if self.repeats else 0
        return [
            Task(question, n < self.counted, n < timed, n < self.diagnostics) for n, question in enumerate(questions)
        ]


@dataclass(frozen=True)
class Task:
    """A question to measure: also FLOPs operation by operation, also times, also diagnostics."""

    question: Question
    count: bool
    timed: bool
    examine: bool

    def is_met_by(self, record: Mapping[str, Any]) -> bool:
        """Whether a record of the question holds all that is asked for; a failed one is tried again."""
        if "error" in record:
            return False
        has_times = all(run["times"] for run in record["runs"].values())
        return ("diagnostics" in record or not self.examine) and (has_times or not self.timed)


class Asker:
    """Makes the records of a plan's questions over one session."""

    def __init__(self, session: Session, plan: Plan) -> None:
        self._meter = Meter(session, plan.cells, repeats=plan.repeats, max_new_tokens=plan.max_new_tokens)
        self._diagnostics = Diagnostics(session, room=plan.max_new_tokens)

    def record(self, task: Task) -> dict[str, Any]:
        """The question's record, or why it can't be asked."""
        question = task.question
        try:
            record = self._meter.question(question, count=task.count, timed=task.timed)
            if task.examine:
                record["diagnostics"] = self._diagnostics.question(question)
        except (InputError, UsageError) as error:  # pages that the document does not have
            return {"question": question.name, "kind": question.kind, "error": error.message}
        return record


def fitting(model: VisionLanguageModel, contenders: Iterable[Contender]) -> tuple[list[Contender], dict[str, str]]:
    """Those that this model can be served under; and why it can't be under the others, by label."""
    kept, left_out = [], {}
    for contender in contenders:
        try:
            check_policy(model, policies.create(contender.name, contender.options))
            kept.append(contender)
        except ModelError as error:
            left_out[contender.label] = error.message
    return kept, left_out
