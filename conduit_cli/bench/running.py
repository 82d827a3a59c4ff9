"""A whole run: every question that has no record yet, then the summary of all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from conduit_cli.bench.journal import Journal
from conduit_cli.bench.plan import Asker, Plan, Task
from conduit_cli.bench.question import Question
from conduit_cli.bench.summary import summarise
from conduit_cli.bench.workers import Opener, shared_out
from conduit_cli.errors import InputError
from conduit_cli.session.session import Session

__all__ = ["Plan", "run", "sample"]

Progress = Callable[[int, int, str], None]


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
    workers: int = 1,
    opener: Opener | None = None,
) -> dict[str, Any]:
    """Measure what is missing in `folder` and summarise all of `questions`.

    A question that can't be asked is recorded with the reason and left out of every figure.

    Args:
        on_progress: told how many of how many questions are finished, and the name of one under way; none at the end.
        workers: processes that share the questions of which no times are taken.
        opener: how each of them gets its session; without it there is only this one.

    Raises:
        UsageError: the folder holds a run with other settings.
        InputError: the folder can't be used, or no question could be asked.
    """
    with Journal(folder, _settings(session, plan), fresh=fresh) as journal:
        missing = [task for task in plan.tasks(questions) if not _is_complete(journal, task)]
        done = len(questions) - len(missing)
        for task, record in _measured(session, plan, missing, workers, opener):
            if record is None:
                on_progress(done, len(questions), task.question.name)
                continue
            journal.add({**record, "digest": _digest(task.question)})
            done += 1
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
        "left_out": dict(plan.left_out),
        **summarise(good, plan.cells, seed=plan.seed),
    }


def _measured(
    session: Session, plan: Plan, tasks: Sequence[Task], workers: int, opener: Opener | None
) -> Iterator[tuple[Task, dict[str, Any] | None]]:
    """Each task, first with nothing when it begins, then with its record.

    Questions of which times are taken come first and here, while nothing else runs.
    """
    together = [task for task in tasks if not task.timed] if workers > 1 and opener is not None else []
    asker = Asker(session, plan)
    for task in tasks:
        if task not in together:
            yield task, None
            yield task, asker.record(task)
    if together and opener is not None:
        yield together[0], None
        for task, record in shared_out(together, plan, opener, workers):
            yield task, record
            yield task, None


def _is_complete(journal: Journal, task: Task) -> bool:
    """Whether there is a record of this very question, with all that is asked for."""
    record = journal.records.get(task.question.name)
    return record is not None and record["digest"] == _digest(task.question) and task.is_met_by(record)


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
