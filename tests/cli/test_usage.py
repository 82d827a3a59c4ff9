"""Words that make no sense: exit code 2, one sentence, a hint, no traceback, nothing written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Conduit

QUESTION = "What is the total?"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["ask", "{report}", QUESTION, "--ratio", "1.5"], "1.5"),
        (["ask", "{report}", QUESTION, "--ratio", "-0.1"], "-0.1"),
        (["ask", "{report}", QUESTION, "--ratio", "nan"], "nan"),
        (["ask", "{report}", QUESTION, "--ratio", "much"], "--ratio"),
        (["ask", "{report}", QUESTION, "--policy", "clever"], "clever"),
        (["ask", "{report}", QUESTION, "--codec", "zip"], "zip"),
        (["ask", "{report}", QUESTION, "--device", "abacus"], "abacus"),
        (["ask", "{report}", QUESTION, "--dtype", "float7"], "float7"),
        (["ask", "{report}", QUESTION, "--max-size", "huge"], "huge"),
        (["ask", "{report}", QUESTION, "--max-new-tokens", "0"], "0"),
        (["ask", "{report}", QUESTION, "--temperature", "-1"], "-1"),
        (["ask", "{report}", QUESTION, "--lambda", "2"], "2"),
        (["ask", "{report}"], "question"),
        (["ask", "{report}", "  "], "question"),
        (["ask", "{report}", QUESTION, "--no-such-option"], "--no-such-option"),
        (["ingest"], "paths"),
        (["dance"], "dance"),
        (["cache", "rm"], "which pages"),
        (["cache", "prune", "--older-than", "long"], "long"),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, list) else value,
)
def test_usage_errors(conduit: Conduit, samples: Path, words: list[str], named: str) -> None:
    ran = conduit(*(word.format(report=samples / "report.pdf") for word in words))
    assert ran.code == 2
    assert named in ran.err
    assert ran.out == ""
    assert not any(Path(os.environ["XDG_CACHE_HOME"]).rglob("*.safetensors"))


@pytest.mark.parametrize("pages", ["9", "0", "3-2", "one", "1,,2"])
def test_page_ranges(conduit: Conduit, samples: Path, pages: str) -> None:
    ran = conduit("ask", samples / "report.pdf", QUESTION, "--pages", pages)
    assert (ran.code, ran.out) == (2, "")


def test_stdin_is_read_only_where_a_dash_is_given(samples: Path) -> None:
    read, write = os.pipe()  # never closed while the command runs: a reader would hang
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "conduit_cli", "ask", str(samples / "report.pdf")],
            stdin=read,
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        os.close(read)
        os.close(write)
    assert ran.returncode == 2
    assert "question" in ran.stderr


def test_version(conduit: Conduit) -> None:
    ran = conduit("--version")
    assert ran.code == 0
    assert ran.out.startswith("conduit ")
