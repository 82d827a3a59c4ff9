"""Which models there are, which one is used, choosing and checking one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Conduit
from tests.families.tiny import MATRIX

_ELSEWHERE = """
import contextlib, io, json, socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("the network was used")
socket.socket.connect = socket.getaddrinfo = refuse
from conduit_cli.app import main
ran = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    ran.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(ran))
"""
_COMMIT = "0123456789abcdef0123456789abcdef01234567"


def _used(conduit: Conduit) -> tuple[str, str]:
    data = json.loads(conduit("models", "--json").out)
    return data["model"], data["chosen_by"]


def test_the_choice_is_kept_and_taken_back(conduit: Conduit, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _used(conduit) == ("bundled", "bundled")
    assert conduit("models", "use", 'odd "name"\\/model').code == 0
    assert _used(conduit) == ('odd "name"\\/model', "config")
    monkeypatch.setenv("CONDUIT_MODEL", "from/environment")
    assert _used(conduit) == ("from/environment", "environment")
    monkeypatch.delenv("CONDUIT_MODEL")
    assert conduit("models", "use", "--unset").code == 0
    assert _used(conduit) == ("bundled", "bundled")


@pytest.mark.parametrize("words", [[], ["name", "--unset"]])
def test_use_wants_one_of_two(conduit: Conduit, words: list[str]) -> None:
    assert conduit("models", "use", *words).code == 2


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "", "~/none"])
def test_a_choice_that_cannot_be_is_refused(conduit: Conduit, name: str) -> None:
    assert conduit("models", "use", name).code == 4
    assert conduit("models").out.startswith("model: bundled")


def test_the_bundled_model_is_listed_with_what_a_page_takes(conduit: Conduit) -> None:
    data = json.loads(conduit("models", "list", "--json").out)
    assert data["types"] == list(MATRIX)
    (bundled,) = data["models"]
    assert bundled["local"]
    assert bundled["problem"] is None
    assert bundled["bytes_per_token"] > 0
    assert bundled["page_tokens"] > 0
    shown = conduit("models").out
    assert str(bundled["bytes_per_token"]) in shown
    assert "Gemma 3" in shown


def test_a_chosen_model_that_is_not_there_is_listed_as_missing(
    conduit: Conduit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONDUIT_MODEL", "nobody/nothing")
    ran = conduit("models")
    assert ran.code == 0
    assert "missing" in ran.out
    assert "nobody/nothing are not on this machine" in ran.err


def test_check_passes_the_bundled_model(conduit: Conduit) -> None:
    ran = conduit("models", "check", "bundled", "--json")
    data = json.loads(ran.out)
    assert (ran.code, data["passed"], data["problem"]) == (0, True, None)
    assert data["difference"] <= 1e-4


def test_check_fails_with_4_where_attention_is_not_observed(conduit: Conduit, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as stock

    class Deaf:
        @staticmethod
        def get_interface(_name: str, default: Any) -> Any:
            return default

    monkeypatch.setattr(stock, "ALL_ATTENTION_FUNCTIONS", Deaf())
    ran = conduit("models", "check", "bundled", "--json")
    assert ran.code == 4
    assert json.loads(ran.out)["passed"] is False
    assert "ignores the registered attention function" in ran.err


def test_models_of_the_hub_cache_need_no_network(tmp_path: Path) -> None:
    """In a process that may not connect, with the hub not told to stay offline."""
    repo = tmp_path / "hf" / "hub" / "models--org--tiny"
    MATRIX["llava"].save(repo / "snapshots" / _COMMIT)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(_COMMIT, "utf-8")
    commands = [
        ["models", "list", "--json"],
        ["models", "check", "org/tiny", "--json"],
        ["models", "check", f"org/tiny@{_COMMIT}", "--json"],
        ["models", "check", "org/other@v2", "--offline"],
    ]
    root = Path(__file__).parents[2]
    environment = {k: v for k, v in os.environ.items() if k not in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")}
    environment |= {
        "HF_HOME": str(tmp_path / "hf"),
        "CONDUIT_STORE": str(tmp_path / "store"),
        "PYTHONPATH": f"{root}{os.pathsep}{root / 'store'}",
    }
    done = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE, json.dumps(commands)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    listed, checked, revised, absent = json.loads(done.stdout.splitlines()[-1])
    names = {one["name"]: one for one in json.loads(listed[1])["models"]}
    assert set(names) == {"bundled", "org/tiny"}
    assert names["org/tiny"]["family"] == "LLaVA-1.5"
    assert [code for code, _, _ in (checked, revised)] == [0, 0], checked
    assert json.loads(checked[1])["passed"]
    assert absent[0] == 4
    assert "hf download org/other --revision v2" in absent[2]
