"""Kill -9 at any moment: every page is a hit or a miss afterwards, never damage."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from tests.store import pages
from tests.store.nursery import Nursery

PAGES = range(12)
CAP = 80_000  # about eight pages: eviction is going on as well
POINTS = 220


def test_killed_at_random_moments(
    nursery: Nursery, memory_disk: Path, record_property: Callable[[str, object], None]
) -> None:
    """Scenarios 38 and 39: the same store survives all of them, one after the other."""
    path = memory_disk / "store"
    durations = []
    for seed in range(3):  # the first is cold, and moments beyond a run's end kill nothing
        start = time.monotonic()
        assert nursery.run("churn", path=str(path), seed=seed, count=len(PAGES), max_size=CAP) == 0
        durations.append(time.monotonic() - start)
    whole_run = min(durations)
    moments = random.Random(1)
    killed = hits = 0
    for seed in range(POINTS * 2):
        moment = moments.uniform(0, whole_run)
        pid = nursery.start("churn", kill_after=moment, path=str(path), seed=seed, count=12, max_size=CAP)
        killed += nursery.wait(pid) == -9
        hits += pages.check_whole(path, PAGES)
        if killed == POINTS:
            break
    record_property("faults", killed)
    assert killed >= 200
    assert hits > killed, "hardly any page survived: the test proves nothing"


def test_killed_at_every_call_that_changes_the_disk(
    nursery: Nursery, memory_disk: Path, record_property: Callable[[str, object], None]
) -> None:
    """Not at random: before and after each write, flush, rename, unlink, mkdir, from an empty folder."""
    point = 0
    while True:
        point += 1
        path = memory_disk / str(point)
        pid = nursery.start("ingest", die_at=point, path=str(path), numbers=[0, 1, 2], max_size=25_000)
        if nursery.wait(pid) == 0:
            break
        assert pages.check_whole(path, range(3)) <= point
        assert nursery.run("ingest", path=str(path), numbers=[0, 1]) == 0
        assert pages.check_whole(path, range(3)) >= 2
    record_property("faults", point)
    assert point > 30
