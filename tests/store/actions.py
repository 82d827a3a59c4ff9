"""What the children of `nursery` do."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from conduit_store import Store, StoreReadOnly, index
from tests.store import pages


def ingest(path: str, numbers: list[int], max_size: int | None = None) -> None:
    """Write pages and notes about them."""
    with Store.open(path, max_size=max_size) as store:
        for number in numbers:
            if not store.contains(pages.key(number)):
                pages.write(store, number)
            store.remember("page", f"document:{number}", {"digest": number})
            store.label(pages.key(number), "report.pdf", number)


def churn(path: str, seed: int, count: int, max_size: int, *, steps: int = 20, remove: bool = True) -> None:
    """Write, read, remove and evict in a random order."""
    order = random.Random(seed)
    with Store.open(path, max_size=max_size) as store:
        for _ in range(steps):
            number = order.randrange(count)
            with store.pin([pages.key(number)]):
                if not pages.holds(store, number):
                    pages.write(store, number)
            if remove and order.random() < 0.2:
                store.remove([pages.key(order.randrange(count))])
            store.remember("page", str(number), order.random())


def ask(path: str, numbers: list[int], seconds: float) -> None:
    """Read pinned pages over and over; they must be there and right all the time."""
    with Store.open(path, max_size=10**9) as store:
        with store.pin([pages.key(number) for number in numbers]):
            for number in numbers:
                if not pages.holds(store, number):
                    pages.write(store, number)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                assert all(pages.holds(store, number) for number in numbers)
        assert not store.damaged


def pin(path: str, numbers: list[int], ready: str, until: str | None) -> None:
    """Pin pages, say so, and wait for a file; or die with the pin held."""
    with Store.open(path, max_size=10**9) as store, store.pin([pages.key(n) for n in numbers]):
        Path(ready).touch()
        if until is None:
            os.kill(os.getpid(), signal.SIGKILL)
        while not Path(str(until)).exists():
            time.sleep(0.01)


def grow(path: str, count: int) -> None:
    """Fill the index until its map has to grow."""
    index.MAP_SIZE = 1 << 17
    with Store.open(path) as store:
        for number in range(count):
            store.remember("grow", str(number), "x" * 2000)


def fork_inside(path: str) -> None:
    """Use one open store on both sides of a fork."""
    store = Store.open(path)
    pages.write(store, 1)
    child = os.fork()
    if child == 0:
        try:
            assert pages.holds(store, 1)
            pages.write(store, 2)
            store.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pages.holds(store, 2)
    pages.write(store, 3)
    store.close()


def fork_with_pin(path: str, ready: str, until: str) -> None:
    """A child outlives its parent, which held a pin."""
    store = Store.open(path, max_size=10**9)
    with store.pin([pages.key(1)]):
        if os.fork() == 0:
            Path(ready).touch()
            while not Path(until).exists():
                time.sleep(0.01)
            os._exit(0)
        while not Path(ready).exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)


def read_only(path: str, number: int) -> None:
    """Read a store without the right to change it."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setuid(65534)
    notes: list[str] = []
    with Store.open(path, on_note=notes.append) as store:
        assert store.readonly
        assert pages.holds(store, number)
        assert not pages.holds(store, number + 1), "the second page is damaged"
        assert len(notes) == 1
        store.remember("kind", "key", 1)
        with store.pin([pages.key(number)]):
            try:
                pages.write(store, number + 2)
            except StoreReadOnly:
                return
    raise AssertionError("a read-only store was written")
