"""Fixtures of the store's tests."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conduit_store import Store
from tests.store.nursery import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """One process that forks children for all tests."""
    with Nursery() as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The folder of a store that does not exist yet."""
    return tmp_path / "store"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """An open, empty store."""
    with Store.open(path) as opened:
        yield opened


@pytest.fixture
def memory_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder where a flush costs nothing; a killed process does not need the disk to have it."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small tmpfs needs rights that this machine does not give")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)
