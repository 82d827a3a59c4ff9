"""A whole run: every question that has no record yet, then the summary of all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from conduit_cli import policies
from conduit_cli.bench.contenders import Cell, Contender, cells
from conduit_cli.bench.diagnose import Diagnostics
from conduit_cli.bench.journal import Journal
from conduit_cli.bench.measure import Meter
from conduit_cli.bench.question import Question
from conduit_cli.bench.summary import summarise
from conduit_cli.errors import InputError, UsageError
from conduit_cli.session.session import Session

__all__ = ["Plan", "run", "sample"]

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        contenders, ratios: every policy at every ratio; those without a budget once.
        repeats: timed runs of each; 0 leaves times out.
        seed: of the sample of questions, the resampling and the sign flips.
        counted: on how many questions FLOPs are counted operation by operation; by formula they are known on all.
        diagnostics: of how many questions the value norms and true refresh gains are looked at as well.
    """

    contenders: Sequence[Contender]
    ratios: Sequence[float]
    repeats: int = 3
    max_new_tokens: int = 32
    seed: int = 0
    counted: int = 20
    diagnostics: int = 0
    cells: list[Cell] = field(init=False)

    def __post_init__(self) -> None:
        for contender in self.contenders:
            policies.create(contender.name, contender.options)  # refuse its options before any work
        object.__setattr__(self, "cells", cells(self.contenders, self.ratios))


def sample(questions: Sequence[Question], limit: int | None, seed: int) -> list[Question]:
    """At most `limit` questions, drawn without replacement; a larger limit holds those of a smaller one."""
    order = np.random.default_rng(seed).permutation(len(questions))
    taken = sorted(order[:limit].tolist())
    return [questions[index] for index in taken]


def run(
    session: Session,
    questions: Sequence[Question],
    plan: Plan,
    folder: Path,
    *,
    fresh: bool = False,
    on_progress: Progress = lambda _done, _total, _note: None,
) -> dict[str, Any]:
    """Measure what is missing in `folder` and summarise all of `questions`.

    A question that can't be asked is recorded with the reason and left out of every figure.

    Raises:
        UsageError: the folder holds a run with other settings.
        InputError: the folder can't be used, or no question could be asked.
    """
    meter = Meter(session, plan.cells, repeats=plan.repeats, max_new_tokens=plan.max_new_tokens)
    diagnostics = Diagnostics(session, room=plan.max_new_tokens)
    examined = {question.name for question in questions[: plan.diagnostics]}
    with Journal(folder, _settings(session, plan), fresh=fresh) as journal:
        for done, question in enumerate(questions):
            identity = _digest(question)
            if _is_complete(journal.records.get(question.name), identity, examine=question.name in examined):
                continue
            on_progress(done, len(questions), question.name)
            try:
                record = meter.question(question, count=done < plan.counted)
                if question.name in examined:
                    record["diagnostics"] = diagnostics.question(question)
            except (InputError, UsageError) as error:  # pages that the document does not have
                record = {"question": question.name, "kind": question.kind, "error": error.message}
            journal.add({**record, "digest": identity})
        on_progress(len(questions), len(questions), "")
        records = [journal.records[question.name] for question in questions]
    good = [record for record in records if "error" not in record]
    if not good:
        raise InputError(f"no question could be asked; the first says: {records[0]['error']}")
    failed = [{"question": r["question"], "error": r["error"]} for r in records if "error" in r]
    return {
        "model": session.model.name,
        "settings": _settings(session, plan),
        "questions": len(good),
        "failed": failed,
        **summarise(good, plan.cells, seed=plan.seed),
    }


def _is_complete(record: dict[str, Any] | None, identity: str, *, examine: bool) -> bool:
    """Whether a record is of this very question, with all that is asked for; a failed one is tried again."""
    if record is None or record["digest"] != identity or "error" in record:
        return False
    return "diagnostics" in record or not examine


def _settings(session: Session, plan: Plan) -> dict[str, Any]:
    """Everything that a record depends on besides its question."""
    return {
        "model": {str(k): str(v) for k, v in session.model.identity.items()},
        "device": str(session.model.device),
        "codec": session.codec,
        "cells": [cell.key for cell in plan.cells],
        "repeats": plan.repeats,
        "max_new_tokens": plan.max_new_tokens,
    }


def _digest(question: Question) -> str:
    """Changes with the question's record and with the size or date of its documents."""
    stats = [(path.stat().st_size, path.stat().st_mtime_ns) for path in question.documents if path.exists()]
    return hashlib.sha256(repr((asdict(question), stats)).encode()).hexdigest()[:16]
