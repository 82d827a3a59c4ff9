"""Full disks, read-only stores, disks without locks."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import lmdb
import pytest

from conduit_store import Store, StoreFull, StoreReadOnly, StoreUnavailable, writing
from tests.store import pages
from tests.store.nursery import Nursery


def _fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


def _write_all_pages(store: Store) -> None:
    for number in range(300):
        pages.write(store, number)


def test_a_full_disk_evicts_and_goes_on(small_disk: Path) -> None:
    """Scenario 59, for real: a 2 MiB disk and a cap far beyond it."""
    with Store.open(small_disk / "store", max_size=10**9) as store:
        for number in range(300):
            pages.write(store, number)
            assert pages.holds(store, number)
        assert 20 < len(store.entries()) < 300
    assert pages.check_whole(small_disk / "store", range(300)) > 5


def test_a_full_disk_with_all_pinned_is_told(small_disk: Path) -> None:
    keys = [pages.key(number) for number in range(300)]
    with Store.open(small_disk / "store", max_size=10**9) as store, store.pin(keys):
        with pytest.raises(StoreFull, match="full"):
            _write_all_pages(store)
        kept = len(store.entries())
        assert kept > 20
        assert all(pages.holds(store, number) for number in range(kept))
        assert not pages.files(store.path, "tmp")


def test_a_store_on_a_full_disk_can_be_read(small_disk: Path) -> None:
    path = small_disk / "store"
    with Store.open(path) as store:
        pages.write(store, 1)
    _fill(small_disk)
    with Store.open(path, max_size=10**9) as store:
        assert pages.holds(store, 1)
        assert store.remove([pages.key(1)]) > 0
        assert not store.entries()


def test_no_store_is_made_on_a_full_disk(small_disk: Path) -> None:
    _fill(small_disk)
    with pytest.raises(StoreFull, match="no room"):
        Store.open(small_disk / "store")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_one_failed_write_is_retried_after_eviction(path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    with Store.open(path) as store:
        for number in range(5):
            pages.write(store, number)
        real, failures = writing._write_all, 1

        def failing(fd: int, data: memoryview) -> None:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise OSError(code, os.strerror(code))
            real(fd, data)

        monkeypatch.setattr(writing, "_write_all", failing)
        pages.write(store, 9)
        assert pages.holds(store, 9)
        assert 2 <= len(store.entries()) < 6
        failures = 2
        with pytest.raises(StoreFull, match="full"):
            pages.write(store, 10)
    pages.check_whole(path, range(11))


def test_a_read_only_store_is_read(nursery: Nursery) -> None:
    """By a user without rights to it; as root, the child becomes nobody."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        with Store.open(path) as store:
            pages.write(store, 1)
            pages.write(store, 2)
        file = pages.object_file(path, 2)
        file.write_bytes(file.read_bytes()[:-1])
        Path(folder).chmod(0o755)
        for found in (path, *path.rglob("*")):
            found.chmod(0o555 if found.is_dir() else 0o444)
        try:
            assert nursery.run("read_only", path=str(path), number=1) == 0
        finally:
            for found in (path, *path.rglob("*")):
                found.chmod(0o755 if found.is_dir() else 0o644)


def test_a_read_only_disk_is_read(small_disk: Path) -> None:
    path = small_disk / "store"
    with Store.open(path) as store:
        pages.write(store, 1)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with Store.open(path) as store:
        assert store.readonly
        assert pages.holds(store, 1)
        with pytest.raises(StoreReadOnly, match="only be read"):
            pages.write(store, 2)
        with pytest.raises(StoreReadOnly):
            store.remove([pages.key(1)])


@pytest.mark.parametrize("where", ["lmdb", "flock"])
def test_a_disk_without_locks_is_named_as_such(path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Scenarios 48 and 52: our own words and a way out, not LMDB's."""

    def no_locks(*_args: Any, **_options: Any) -> Any:
        if where == "lmdb":
            raise lmdb.Error(f"{path}: {os.strerror(errno.ENOLCK)}")
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("lmdb.open" if where == "lmdb" else "fcntl.flock", no_locks)
    with pytest.raises(StoreUnavailable, match="no file locks") as caught, Store.open(path) as store:
        pages.write(store, 1)
    assert "--store" in str(caught.value.hint)


def test_the_default_cap(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 GiB, or a tenth of what would be free without the store."""

    class Usage:
        free = 50_000

    with Store.open(path) as store:
        pages.write(store, 1)
        size = store.stats().nbytes
    monkeypatch.setattr("shutil.disk_usage", lambda _path: Usage)
    with Store.open(path) as store:
        assert store.max_size == (50_000 + size) // 10
    Usage.free = 10**13
    with Store.open(path) as store:
        assert store.max_size == 20 * 2**30


def test_a_store_over_its_cap_is_brought_back_on_opening(path: Path) -> None:
    """Scenario 55."""
    notes: list[str] = []
    with Store.open(path) as store:
        for number in range(6):
            pages.write(store, number)
        size = store.entries()[0].nbytes
    with Store.open(path, max_size=3 * size + 100, on_note=notes.append) as store:
        assert len(store.entries()) == 3
        assert [pages.holds(store, number) for number in range(6)] == [False] * 3 + [True] * 3
    assert "limit" in notes[0]
