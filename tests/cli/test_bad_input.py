"""Documents, models and stores that can't be used: the right exit code, and nothing half-written."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Conduit

QUESTION = "What is the total?"


def _make(kind: str, folder: Path, samples: Path) -> Path:
    path = folder / f"{kind}.pdf"
    whole = (samples / "report.pdf").read_bytes()
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        contents = {
            "empty": b"",
            "text": b"hello\n",
            "cut": whole[:40],
            "markup": b"<html><body>no</body></html>",
        }
        path.write_bytes(contents[kind])
    return path


@pytest.mark.parametrize("command", ["ingest", "ask"])
@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "text", "cut", "markup"])
def test_documents(conduit: Conduit, tmp_path: Path, samples: Path, command: str, kind: str) -> None:
    path = _make(kind, tmp_path, samples)
    ran = conduit(command, path, *([QUESTION] if command == "ask" else []))
    assert ran.code == 3
    assert path.name in ran.err
    assert ran.out == ""
    assert not any(Path(os.environ["XDG_CACHE_HOME"]).rglob("*.safetensors"))


def test_unknown_model(conduit: Conduit, samples: Path) -> None:
    ran = conduit("ask", samples / "report.pdf", QUESTION, "--model", "./no-such-folder")
    assert ran.code == 4
    assert "no-such-folder" in ran.err


def test_weights_missing_offline_say_how_to_get_them(conduit: Conduit, samples: Path) -> None:
    ran = conduit("ask", samples / "report.pdf", QUESTION, "--model", "nobody/nothing", "--offline")
    assert ran.code == 4
    assert "hf download nobody/nothing" in ran.err


def test_store_in_the_way_of_a_file(conduit: Conduit, tmp_path: Path, samples: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a store")
    ran = conduit("ingest", samples / "report.pdf", "--store", blocked)
    assert ran.code == 5
    assert f"{blocked} is a file, not a folder" in ran.err.replace("\n", " ")


def test_a_disk_without_locks_is_answered_from_but_not_ingested_into(
    conduit: Conduit, tmp_path: Path, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Network folders often give none; locks elsewhere go on working."""
    network, flock = tmp_path / "network", fcntl.flock

    def refuse(file: object, operation: int) -> None:
        number = file if isinstance(file, int) else file.fileno()  # type: ignore[attr-defined]
        if os.readlink(f"/proc/self/fd/{number}").startswith(str(network)):
            raise OSError(errno.ENOLCK, "No locks available")
        flock(number, operation)

    monkeypatch.setattr("fcntl.flock", refuse)
    ran = conduit("ask", samples / "invoice.pdf", QUESTION, "--store", network)
    assert ran.code == 0
    assert ran.out.strip()
    assert ran.err.count("answering without storing") == 1
    ran = conduit("ingest", samples / "invoice.pdf", "--store", network)
    assert ran.code == 5
    assert "no file locks" in ran.err
    assert not list(network.rglob("*.safetensors"))


def test_password_file_missing(conduit: Conduit, tmp_path: Path, samples: Path) -> None:
    ran = conduit("ingest", samples / "report.pdf", "--password-file", tmp_path / "secret")
    assert ran.code == 3
    assert "secret" in ran.err
