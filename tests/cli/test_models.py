"""Which model is used, and choosing another."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Conduit


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
