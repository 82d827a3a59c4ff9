"""`conduit bench` from end to end on the bundled model."""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import signal
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from conduit_cli import Session
from conduit_cli.bench.contenders import parse_policies
from conduit_cli.bench.measure import Meter
from conduit_cli.bench.readers import read_set
from conduit_cli.bench.running import Plan, run, sample
from conduit_cli.errors import ConduitError, UsageError
from tests.bench.conftest import MakeSet
from tests.cli.conftest import Conduit
from tests.session.conftest import MakePdf

_PAGES = [["Total: 4711", "Tax: 12"], ["Total: 93", "Tax: 8"], ["Total: 618", "Tax: 77"]]


@pytest.fixture
def three(pdf: MakePdf, make_set: MakeSet) -> Path:
    """Three questions on one document, each with another prefix."""
    pdf(_PAGES, "a.pdf")
    common = {"document": "a.pdf", "kind": "label"}
    return make_set(
        {**common, "question": "What is the total on page 2?", "answer": "93", "page": 2, "system": "Be brief."},
        {**common, "question": "What is the total?", "answer": "4711", "page": 1, "pages": "1", "labels": True},
        {**common, "question": "What is the tax on page 3?", "answer": "77", "page": 3, "question_first": True},
    )


def _rows(folder: Path) -> dict[tuple[str, float], dict[str, Any]]:
    cells = json.loads((folder / "results.json").read_text())["cells"]
    return {(row["policy"], row["ratio"]): row for row in cells}


def test_a_whole_run(conduit: Conduit, three: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["--policies", "conduit,reuse,cacheblend", "--ratios", "0,0.25,1", "--repeats", 2]
    ran = conduit("bench", three, *words, "--out", out)
    assert ran.code == 0
    assert "question 3/3" in ran.err
    assert "conduit" in ran.out and "KL to full" in ran.out
    rows = _rows(out)
    assert set(rows) == {("reuse", 0), ("full", 1), *((p, r) for p in ("conduit", "cacheblend") for r in (0, 0.25, 1))}
    full = rows["full", 1]
    assert (full["kl"], full["top1"], full["same"], full["flops_ratio"], full["ttft_ratio"]) == (0, 1, 1, 1, 1)
    for policy in ("conduit", "cacheblend"):
        at_one = rows[policy, 1]
        assert at_one["kl"] == pytest.approx(0, abs=1e-6)
        assert (at_one["top1"], at_one["same"], at_one["em"]) == (1, 1, full["em"])
        assert at_one["nll"] == pytest.approx(full["nll"], abs=1e-4)
        assert at_one["refreshed_share"] == 1
    assert rows["conduit", 0]["kl"] == pytest.approx(rows["reuse", 0]["kl"], abs=1e-9)
    assert rows["reuse", 0]["kl"] > 1e-4, "the prefix changed, so plain reuse is not full prefill"
    assert rows["conduit", 0]["refreshed_share"] == 0 and rows["conduit", 0]["answer_page_share"] is None
    flops = [rows[key]["flops_ratio"] for key in (("reuse", 0), ("conduit", 0.25), ("full", 1), ("conduit", 1))]
    assert flops == sorted(flops) and len(set(flops)) == 4
    assert rows["conduit", 0.25]["flops_ratio_with_vision"] < rows["conduit", 0.25]["flops_ratio"]
    stages = rows["conduit", 0.25]["stages_s"]
    assert all(stages[stage] > 0 for stage in ("load", "place", "score", "select", "refresh", "first_token"))
    assert sum(stages.values()) == pytest.approx(rows["conduit", 0.25]["ttft_s"], rel=0.5)
    assert rows["full", 1]["bytes"] < rows["reuse", 0]["bytes"] < rows["conduit", 0.25]["bytes"]
    with (out / "results.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [float(line["kl"]) for line in lines] == [row["kl"] for row in rows.values()]
    with Image.open(out / "results.png") as picture:
        assert picture.width > 1000


def test_json_is_the_results_file(conduit: Conduit, three: Path, tmp_path: Path) -> None:
    words = ["--policies", "conduit,attention", "--ratios", "0.25", "--repeats", 0, "--limit", 2]
    words += ["--diagnostics", 1, "--count-flops", 1, "--json"]
    ran = conduit("bench", three, *words, "--out", tmp_path / "out")
    assert ran.code == 0
    results = json.loads(ran.out)
    assert results == json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["questions"] == 2
    assert set(results["overlap"]) == {"conduit@0.25|attention@0.25"}
    assert 0 < results["overlap"]["conduit@0.25|attention@0.25"] <= 1
    assert results["kinds"]["label"]["n"] == 2
    assert results["cells"][0]["counted"] == 1
    assert -1 <= results["diagnostics"]["gain"]["conduit"] <= 1
    assert results["diagnostics"]["norms"] > 0.5, "value norms keep most of their order across prefixes"


def test_workers_find_what_one_process_finds(conduit: Conduit, three: Path, tmp_path: Path) -> None:
    """The first question is timed, by this process; the others are shared out."""
    words = ["--policies", "conduit,cacheblend", "--ratios", "0.25", "--timed", 1, "--repeats", 1, "--count-flops", 1]
    alone = conduit("bench", three, *words, "--out", tmp_path / "alone")
    shared = conduit("bench", three, *words, "--workers", 2, "--out", tmp_path / "shared")
    assert (alone.code, shared.code) == (0, 0)
    assert "question 3/3" in shared.err
    first, second = _rows(tmp_path / "alone"), _rows(tmp_path / "shared")
    assert first.keys() == second.keys()
    for key, row in first.items():
        assert row["timed"] == second[key]["timed"] == 1
        for name in ("em", "anls", "kl", "nll", "top1", "same", "flops_ratio", "bytes", "answer_page_share"):
            assert second[key][name] == pytest.approx(row[name], abs=1e-5), name
    again = conduit("bench", three, *words, "--workers", 2, "--out", tmp_path / "alone")
    assert again.code == 0
    assert _rows(tmp_path / "alone") == first, "another number of workers goes on with the same run"


def test_what_a_worker_runs_into_is_told(session: Session, three: Path, tmp_path: Path) -> None:
    plan = Plan(parse_policies(["reuse"]), [0.25], repeats=0)
    questions = read_set(three, "conduit")
    with pytest.raises(UsageError, match="no session today"):
        run(session, questions, plan, tmp_path / "out", workers=2, opener=_no_session)
    with pytest.raises(ConduitError, match="worker process was killed"):
        run(session, questions, plan, tmp_path / "out", workers=2, opener=_killed)
    assert not [child for child in multiprocessing.active_children() if child.is_alive()]
    assert run(session, questions, plan, tmp_path / "out")["questions"] == 3


def _no_session() -> AbstractContextManager[Session]:
    raise UsageError("no session today")


def _killed() -> AbstractContextManager[Session]:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_times_that_are_missing_are_taken(session: Session, three: Path, tmp_path: Path) -> None:
    questions = read_set(three, "conduit")[1:]
    contenders = parse_policies(["reuse"])
    first = run(session, questions, Plan(contenders, [0.25], repeats=1, timed=0), tmp_path / "out")
    assert "ttft_s" not in first["cells"][0]
    second = run(session, questions, Plan(contenders, [0.25], repeats=1, timed=1), tmp_path / "out")
    assert second["cells"][0]["timed"] == 1 and second["cells"][0]["ttft_s"] > 0
    assert second["cells"][0]["kl"] == pytest.approx(first["cells"][0]["kl"])


def test_a_run_that_is_stopped_goes_on_where_it_was(
    session: Session, three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the second question, with a half-written line besides: the end is that of a run without a stop."""
    questions = read_set(three, "conduit")
    plan = Plan(parse_policies(["conduit,reuse"]), [0.25], repeats=0)
    whole = run(session, questions, plan, tmp_path / "whole")
    asked: list[str] = []
    measure = Meter.question

    def interrupted(self: Meter, question: Any, **options: Any) -> dict[str, Any]:
        asked.append(question.name)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return measure(self, question, **options)

    monkeypatch.setattr(Meter, "question", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(session, questions, plan, tmp_path / "part")
    with (tmp_path / "part" / "records.jsonl").open("a") as file:
        file.write('{"question": "2", "runs": {"con')
    again = run(session, questions, plan, tmp_path / "part")
    assert asked == ["1", "2", "2", "3"]
    assert again == whole
    assert run(session, questions, plan, tmp_path / "part") == whole
    assert len(asked) == 4
    run(session, questions, plan, tmp_path / "part", fresh=True)
    assert len(asked) == 7


def test_other_settings_are_refused_and_named(session: Session, three: Path, tmp_path: Path) -> None:
    questions = read_set(three, "conduit")[1:2]
    run(session, questions, Plan(parse_policies(["reuse"]), [0.25], repeats=0), tmp_path / "out")
    with pytest.raises(UsageError, match="cells"):
        run(session, questions, Plan(parse_policies(["conduit"]), [0.25], repeats=0), tmp_path / "out")


def test_a_question_that_changed_is_asked_again(session: Session, three: Path, tmp_path: Path) -> None:
    plan = Plan(parse_policies(["reuse"]), [0.25], repeats=0)
    first = run(session, read_set(three, "conduit")[1:2], plan, tmp_path / "out")
    three.write_text(three.read_text().replace('"4711"', '"nothing"'))
    second = run(session, read_set(three, "conduit")[1:2], plan, tmp_path / "out")
    assert (first["cells"][0]["em"], second["cells"][0]["em"]) == (1, 0)


def test_a_larger_limit_holds_the_questions_of_a_smaller_one(samples: Path) -> None:
    questions = read_set(samples / "questions.jsonl", "conduit")
    small, large = ({q.name for q in sample(questions, limit, 3)} for limit in (5, 12))
    assert len(small) == 5 and small < large
    assert sample(questions, None, 3) == questions
    assert {q.name for q in sample(questions, 5, 4)} != small


def test_a_question_whose_page_is_damaged_is_told_and_left_out(conduit: Conduit, three: Path, tmp_path: Path) -> None:
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.7 nothing")
    with three.open("a") as file:
        file.write(json.dumps({"document": "b.pdf", "question": "What is the total?", "answer": "1"}) + "\n")
    ran = conduit("bench", three, "--policies", "reuse", "--repeats", 0, "--out", tmp_path / "out", "--count-flops", 0)
    assert ran.code == 3
    assert "1 of 4 questions" in ran.err and "b.pdf" in ran.err
    assert _rows(tmp_path / "out")["reuse", 0]["n"] == 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--policies", "nosuch"], 2, "nosuch"),
        (["--policies", "conduit:lambda=7"], 2, "lambda"),
        (["--ratios", "0.1,3"], 2, "'3'"),
        (["--format", "parquet"], 2, "docvqa"),
        (["--preset", "everything"], 2, "ablations"),
        (["--limit", "0"], 2, "limit"),
        (["--max-new-tokens", "0"], 2, "max-new-tokens"),
        (["--model", "/nowhere/at/all", "--offline"], 4, "nowhere"),
    ],
)
def test_words_that_make_no_sense(
    conduit: Conduit, three: Path, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    ran = conduit("bench", three, "--out", tmp_path / "out", *words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert not (tmp_path / "out").exists()


def test_sets_that_cannot_be_asked(conduit: Conduit, make_set: MakeSet, tmp_path: Path) -> None:
    empty = make_set(name="empty.jsonl")
    gone = make_set({"document": "gone.pdf", "question": "What is the total?"}, name="gone.jsonl")
    mute = make_set({"document": "gone.pdf"}, name="mute.jsonl")
    for path, said in ((empty, "no question"), (gone, "gone.pdf"), (mute, "question"), (tmp_path / "none", "none")):
        ran = conduit("bench", path, "--out", tmp_path / "out")
        assert ran.code == 3
        assert said in ran.err


def test_the_results_folder_may_not_be_a_file(conduit: Conduit, three: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("here already")
    ran = conduit("bench", three, "--policies", "reuse", "--repeats", 0, "--out", tmp_path / "out")
    assert ran.code == 3
    assert (tmp_path / "out").read_text() == "here already"
