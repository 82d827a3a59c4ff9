"""The question sets that are made from seeds: what each is made of, and a run over a few of all."""

from __future__ import annotations

import json
from pathlib import Path

import pymupdf
import pytest

from conduit_cli.bench.readers import read_set
from samples.questions.make import make
from samples.questions.sets import CHANGES, SETS, draw_set
from tests.cli.conftest import Conduit

_EACH = 8


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets")
    for name in SETS:
        make(folder, name, _EACH)
    return folder


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_what_it_says(made: Path, name: str) -> None:
    questions = read_set(made / f"{name}.jsonl", "conduit")
    assert len(questions) == _EACH
    for number, question in enumerate(questions):
        [path] = question.documents
        with pymupdf.open(path) as document:
            texts = [page.get_text().replace("\xa0", " ") for page in document]
            assert all((page.rect.width, page.rect.height) == (504, 336) for page in document)
        assert len(texts) in SETS[name].pages
        [page] = question.answer_pages
        squeezed = "".join(texts[page - 1].split())
        assert "".join(question.answers[0].split()) in squeezed, "the answer stands on its page"
        change = CHANGES[number % len(CHANGES)]
        changed = {
            "system": bool(question.system),
            "instruction": bool(question.instruction),
            "labels": question.labels is True,
            "question first": question.question_first,
        }
        assert changed[change]
        assert question.kind.endswith(f"changed: {change}")


def test_every_page_is_held_out_of_training() -> None:
    for name in SETS:
        for drawn in draw_set(name, 2):
            assert all(page.held_out() for page in drawn.task.pages)


def test_near_duplicates_share_most_labels() -> None:
    for drawn in draw_set("duplicates", 3):
        first, *rest = [{fact.subject.lower() for fact in page.facts} for page in drawn.task.pages]
        assert all(len(first & other) >= len(first) / 2 for other in rest)


def test_the_same_files_each_time(made: Path, tmp_path: Path) -> None:
    again = make(tmp_path, "single", 3)
    assert again.read_text().splitlines() == (made / "single.jsonl").read_text().splitlines()[:3]
    for path in sorted((tmp_path / "single").iterdir()):
        assert path.read_bytes() == (made / "single" / path.name).read_bytes()


def test_a_smoke_run_over_all_sets(conduit: Conduit, made: Path, tmp_path: Path) -> None:
    """Thirty-two questions: a refresh brings the first token nearer to full prefill's than plain reuse does."""
    kl: dict[str, list[float]] = {}
    for name in SETS:
        out = tmp_path / name
        words = ["--policies", "conduit,reuse", "--ratios", "0.5", "--repeats", 0, "--count-flops", 0, "--out", out]
        ran = conduit("bench", made / f"{name}.jsonl", *words)
        assert ran.code == 0, ran.err
        for row in json.loads((out / "results.json").read_text())["cells"]:
            assert row["n"] == _EACH
            kl.setdefault(row["policy"], []).append(row["kl"])
    assert sum(kl["full"]) == 0
    assert sum(kl["conduit"]) < sum(kl["reuse"])
