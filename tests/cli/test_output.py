"""Strings that others wrote are safe to print; exceptions become sentences."""

from __future__ import annotations

import errno

import lmdb
import pytest
from safetensors import SafetensorError

from conduit_cli.console.failures import report
from conduit_cli.console.output import Output, printable
from conduit_cli.errors import InputError, ModelError, StoreError, UsageError


@pytest.mark.parametrize("text", ["\x1b[31mred", "a\x07b", "lone \udc80", "turned \u202e round", "\x9b31m"])
def test_printable(text: str) -> None:
    safe = printable(text)
    safe.encode("utf-8")
    assert not any(char in safe for char in "\x1b\x07\u202e\x9b")


def test_tables_keep_square_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(("name",), [("[red]x[/red]",)])
    assert "[red]x[/red]" in capsys.readouterr().out


def test_quiet_leaves_errors(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(quiet=True)
    output.note("unseen")
    output.error("seen", "do this")
    assert capsys.readouterr().err == "error: seen\n  do this\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("m"), 2),
        (InputError("m"), 3),
        (ModelError("m"), 4),
        (StoreError("m"), 5),
        (KeyboardInterrupt(), 130),
        (RuntimeError("m"), 1),
    ],
)
def test_exit_codes(error: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(error) == code
    assert "Traceback" not in capsys.readouterr().err


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CONDUIT_DEBUG", "1")
    report(RuntimeError("deep"))
    assert "RuntimeError: deep" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "named"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 5, "full"),
        (PermissionError(errno.EACCES, "Permission denied", "/some/file"), 1, "/some/file"),
        (MemoryError(), 1, "memory"),
        (lmdb.MapFullError("map"), 5, "store"),
        (SafetensorError("MetadataIncompleteBuffer"), 5, "damaged"),
    ],
)
def test_raw_errors_are_told_apart(error: Exception, code: int, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(error) == code
    message = capsys.readouterr().err
    assert named in message
    assert "unexpected" not in message
