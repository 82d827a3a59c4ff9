"""The main job with the bundled model: ingest once, ask several times."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest

from tests.cli.conftest import Conduit

QUESTION = "What is the revenue on page 2?"


def _files(store: Path) -> dict[Path, tuple[int, int]]:
    return {p: (p.stat().st_size, p.stat().st_mtime_ns) for p in store.rglob("*.safetensors")}


def test_a_second_ingest_writes_nothing(conduit: Conduit, tmp_path: Path, samples: Path) -> None:
    store = tmp_path / "store"
    first = conduit("ingest", samples / "report.pdf", "--store", store, "--json")
    assert first.code == 0
    before = _files(store)
    second = conduit("ingest", samples / "report.pdf", "--store", store, "--json")
    assert [page["status"] for page in json.loads(first.out)["pages"]] == ["stored"] * 6
    assert [page["status"] for page in json.loads(second.out)["pages"]] == ["present"] * 6
    assert json.loads(second.out)["nbytes"] == 0
    assert len(before) == 6
    assert _files(store) == before


def test_the_same_page_under_another_name_is_told_in_full(conduit: Conduit, samples: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.pdf"
    copy.write_bytes((samples / "invoice.pdf").read_bytes() + b"% not the same bytes\n")
    conduit("ingest", samples / "invoice.pdf")
    ran = conduit("ingest", copy)
    assert "copy.pdf, page 1, 96 tokens, present" in ran.err
    assert ran.out == "1 page: 1 present; 0 bytes written\n"


@pytest.mark.parametrize("ratio", [0.0, 0.1, 1.0])
def test_json_holds_what_is_promised(conduit: Conduit, samples: Path, ratio: float) -> None:
    ran = conduit("ask", samples / "report.pdf", QUESTION, "--pages", "1-3", "--ratio", ratio, "--json", "-q")
    assert ran.code == 0
    assert ran.err == ""
    data = json.loads(ran.out)
    assert {"answer", "model", "policy", "ratio", "ttft_s", "flops_ratio", "tokens", "pages"} <= set(data)
    tokens = data["tokens"]
    assert tokens["refreshed"] == math.floor(ratio * tokens["visual"])
    assert tokens["reused"] + tokens["refreshed"] == tokens["visual"]
    assert [page["page"] for page in data["pages"]] == [1, 2, 3]
    assert sum(len(page["refreshed"]) for page in data["pages"]) == tokens["refreshed"]


def test_the_answer_alone_is_on_stdout(conduit: Conduit, samples: Path) -> None:
    words = ("ask", samples / "report.pdf", QUESTION, "--pages", "2")
    streamed = conduit(*words)
    whole = conduit(*words, "--no-stream", "-q")
    data = json.loads(conduit(*words, "--json").out)
    assert streamed.out == whole.out == data["answer"] + "\n"
    assert "refreshed" in streamed.err
    assert whole.err == ""


def test_a_question_from_stdin(conduit: Conduit, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{QUESTION}\n"))
    ran = conduit("ask", samples / "report.pdf", "-", "--pages", "2", "--json")
    assert json.loads(ran.out)["question"] == QUESTION


def test_more_documents(conduit: Conduit, samples: Path) -> None:
    ran = conduit(
        "ask", samples / "invoice.pdf", "What is the tax?",
        "--with", samples / "scan.png", "--with", samples / "dashboard.png", "--json",
    )  # fmt: skip
    assert [page["document"] for page in json.loads(ran.out)["pages"]] == [
        "invoice.pdf",
        "scan.png",
        "dashboard.png",
    ]


def test_chat_through_a_pipe(conduit: Conduit, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [QUESTION, "/ratio 0.2", "/ratio 7", "What is the profit on page 2?", "/quit", "never asked"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    ran = conduit("chat", samples / "report.pdf", "--pages", "1-2", "--json", "-q")
    assert ran.code == 0
    answers = [json.loads(line) for line in ran.out.splitlines()]
    assert [answer["ratio"] for answer in answers] == [0.1, 0.2]
    assert answers[1]["tokens"]["text"] > answers[0]["tokens"]["text"]
    assert "7" in ran.err


def test_inspect_shows_every_page(conduit: Conduit, samples: Path) -> None:
    ran = conduit("inspect", samples / "report.pdf", QUESTION, "--pages", "1-3")
    assert ran.code == 0
    assert ran.out.count("report.pdf") == 3


def test_cache_lists_and_removes(conduit: Conduit, samples: Path) -> None:
    conduit("ingest", samples / "invoice.pdf")
    listed = json.loads(conduit("cache", "ls", "--json").out)
    assert [row["document"] for row in listed] == ["invoice.pdf"]
    assert conduit("cache", "verify").code == 0
    dry = json.loads(conduit("cache", "rm", "--all", "--dry-run", "--json").out)
    assert dry["removed"] == 0
    assert json.loads(conduit("cache", "rm", "--all", "--yes", "--json").out)["removed"] == 1
    assert json.loads(conduit("cache", "ls", "--json").out) == []


def test_colour_never_reaches_a_pipe(conduit: Conduit, samples: Path) -> None:
    ran = conduit("ask", samples / "report.pdf", QUESTION, "--pages", "2")
    assert "\x1b" not in ran.out + ran.err
