"""Running the command line in this process, as `conduit` would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from conduit_cli.app import main


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str


Conduit = Callable[..., Ran]


@pytest.fixture
def conduit(capsys: pytest.CaptureFixture[str]) -> Conduit:
    """Call with the command's words; returns exit code, stdout and stderr."""

    def run(*words: object) -> Ran:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Ran(code, captured.out, captured.err)

    return run
