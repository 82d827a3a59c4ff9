"""Every test runs offline, in a home of its own, with nothing of the caller's environment."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "2")

_SAMPLES = Path(__file__).parent.parent / "samples"
_CLEARED = ("FORCE_COLOR", "NO_COLOR", "GITHUB_ACTIONS", "COLUMNS", "TERM", "PYTHONIOENCODING")
_CLEARED_PREFIXES = ("CLICOLOR", "CONDUIT_")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in list(os.environ):
        if name in _CLEARED or name.startswith(_CLEARED_PREFIXES):
            monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only Unix sockets connect: nothing here needs a network."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX:
            raise AssertionError(f"a test tried to reach {address!r}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of sample documents."""
    return _SAMPLES
