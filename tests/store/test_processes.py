"""Several processes, several handles, forks."""

from __future__ import annotations

import errno
import gc
import os
import threading
import time
from pathlib import Path

import pytest

from conduit_store import Store, StoreFull, StoreUnavailable, index
from tests.store import pages
from tests.store.nursery import Nursery


def _appears(file: Path) -> None:
    end = time.monotonic() + 20
    while not file.exists():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_two_ingest_the_same_document(nursery: Nursery, path: Path) -> None:
    """Scenario 60."""
    numbers = list(range(30))
    children = [nursery.start("ingest", path=str(path), numbers=numbers) for _ in range(3)]
    assert [nursery.wait(child) for child in children] == [0, 0, 0]
    assert pages.check_whole(path, range(30)) == 30


def test_one_evicts_while_another_asks(nursery: Nursery, path: Path) -> None:
    Store.open(path).close()
    asking = nursery.start("ask", path=str(path), numbers=[0, 1, 2], seconds=1.5)
    churning = nursery.start("churn", path=str(path), seed=3, count=40, max_size=80_000, steps=150, remove=False)
    assert nursery.wait(asking) == 0
    assert nursery.wait(churning) == 0
    pages.check_whole(path, range(40))


def test_one_grows_the_map_while_another_reads(nursery: Nursery, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MAP_SIZE", 1 << 17)
    with Store.open(path) as store:
        growing = nursery.start("grow", path=str(path), count=400)
        end = time.monotonic() + 30
        while store.recall("grow", "399") is None and time.monotonic() < end:
            store.remember("mine", "x", time.monotonic())
        assert nursery.wait(growing) == 0
        assert all(store.recall("grow", str(number)) == "x" * 2000 for number in range(400))
        assert (path / "index" / "data.mdb").stat().st_size > 1 << 19


def test_a_pin_holds_in_other_processes(nursery: Nursery, path: Path, tmp_path: Path) -> None:
    ready, until = tmp_path / "ready", tmp_path / "until"
    with Store.open(path) as store:
        pages.write(store, 0)
        size = store.entries()[0].nbytes
    pinning = nursery.start("pin", path=str(path), numbers=[0], ready=str(ready), until=str(until))
    _appears(ready)
    with Store.open(path, max_size=2 * size + size // 2) as store:
        for number in range(1, 6):
            pages.write(store, number)
        assert [pages.holds(store, number) for number in range(6)] == [True, *[False] * 4, True]
        until.touch()
        assert nursery.wait(pinning) == 0
        pages.write(store, 6)
        pages.write(store, 7)
        assert not pages.holds(store, 0) or not pages.holds(store, 5)


def test_a_dead_process_pins_nothing(nursery: Nursery, path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        pages.write(store, 0)
        size = store.entries()[0].nbytes
    assert nursery.run("pin", path=str(path), numbers=[0], ready=str(tmp_path / "ready"), until=None) == -9
    assert pages.files(path, "pins")
    with Store.open(path, max_size=size + size // 2) as store:
        pages.write(store, 1)
        assert not pages.holds(store, 0)
    assert not pages.files(path, "pins")


def test_a_pin_does_not_live_on_in_a_forked_child(nursery: Nursery, path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        pages.write(store, 1)
        size = store.entries()[0].nbytes
    ready, until = tmp_path / "ready", tmp_path / "until"
    assert nursery.run("fork_with_pin", path=str(path), ready=str(ready), until=str(until)) == -9
    with Store.open(path, max_size=size + size // 2) as store:
        pages.write(store, 2)
        assert not pages.holds(store, 1)
    until.touch()


def test_a_store_is_used_across_a_fork(nursery: Nursery, path: Path) -> None:
    """Scenario 50."""
    assert nursery.run("fork_inside", path=str(path)) == 0
    assert pages.check_whole(path, range(4)) == 3


def test_opened_twice_in_one_process(path: Path, tmp_path: Path) -> None:
    """Also through a link: LMDB would lose its locks if one folder were opened twice."""
    (tmp_path / "link").symlink_to(path)
    with Store.open(path) as first, Store.open(tmp_path / "link") as second:
        pages.write(first, 1)
        assert pages.holds(second, 1)
        first.close()
        pages.write(second, 2)
        with pytest.raises(StoreUnavailable, match="closed"):
            first.contains(pages.key(1))
    first.close()
    assert pages.check_whole(path, range(3)) == 2


def test_threads_share_a_store(path: Path) -> None:
    failures: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for number in range(first, first + 6):
                pages.write(store, number)
                assert pages.holds(store, number)
        except BaseException as error:
            failures.append(error)

    with Store.open(path) as store:
        threads = [threading.Thread(target=work, args=(4 * n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
    assert pages.check_whole(path, range(18)) == 18


def test_an_open_entry_outlives_its_eviction(store: Store) -> None:
    entry = store.read(pages.write(store, 1), pages.identity(1))
    assert entry is not None
    assert store.remove([entry.key]) == entry.nbytes
    assert not store.contains(entry.key)
    assert entry.tensor("keys").equal(pages.tensors(1)["keys"])


def test_many_open_entries_do_not_use_up_the_descriptors(store: Store) -> None:
    pages.write(store, 1)
    before = len(os.listdir("/proc/self/fd"))
    entries = [store.read(pages.key(1), pages.identity(1)) for _ in range(400)]
    assert len(os.listdir("/proc/self/fd")) <= before + 256
    keys = pages.tensors(1)["keys"]
    assert all(entry is not None and entry.tensor("keys").equal(keys) for entry in entries)
    del entries
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_running_out_of_descriptors_is_not_damage(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    pages.write(store, 1)

    def too_many(*_args: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", too_many)
        with pytest.raises(StoreUnavailable, match="Too many open files"):
            pages.holds(store, 1)
    assert pages.holds(store, 1)
    assert not store.damaged


def test_the_least_recently_used_goes_first(path: Path) -> None:
    """Scenario 57."""
    with Store.open(path) as store:
        pages.write(store, 0)
        size = store.entries()[0].nbytes
    with Store.open(path, max_size=3 * size + size // 2) as store:
        pages.write(store, 1)
        pages.write(store, 2)
        assert pages.holds(store, 0)
        pages.write(store, 3)
        assert [store.contains(pages.key(number)) for number in range(4)] == [True, False, True, True]
        with store.pin([pages.key(number) for number in (0, 2, 3)]), pytest.raises(StoreFull, match="full"):
            pages.write(store, 4)
        assert [store.contains(pages.key(number)) for number in range(5)] == [True, False, True, True, False]
        assert not pages.files(path, "tmp")


def test_a_use_is_remembered_by_the_next_process(path: Path) -> None:
    with Store.open(path) as store:
        for number in range(3):
            pages.write(store, number)
        size = store.entries()[0].nbytes
    with Store.open(path) as store:
        assert pages.holds(store, 0)
    with Store.open(path, max_size=2 * size + 9) as store:
        assert [store.contains(pages.key(number)) for number in range(3)] == [True, False, True]


def test_crashed_readers_take_no_slots(nursery: Nursery, path: Path) -> None:
    """Scenario 51: far more readers may be open than LMDB's 126, and dead ones are cleared on opening."""
    with Store.open(path) as store:
        environment = store._index._environment.env
        assert environment.info()["max_readers"] >= 1024
