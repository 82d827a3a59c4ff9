"""Files that were cut, emptied, changed, swapped or lost are found before use, and can be rebuilt."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conduit_store import Store, StoreUnavailable
from tests.store import pages


def _flip(file: Path, at: int, bit: int = 0) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1 << bit
    file.write_bytes(data)


def _swap(file: Path) -> None:
    shutil.copy(pages.object_file(file.parents[2], 2), file)


def _directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "emptied": lambda file: file.write_bytes(b""),
    "cut by one byte": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "cut within the header": lambda file: file.write_bytes(file.read_bytes()[:100]),
    "zeros at the end": lambda file: file.write_bytes(file.read_bytes()[:-4096] + bytes(4096)),
    "too long": lambda file: file.write_bytes(file.read_bytes() + b"x"),
    "a header that says it is huge": lambda file: file.write_bytes(struct.pack("<Q", 1 << 60) + file.read_bytes()[8:]),
    "garbage": lambda file: file.write_bytes(bytes(range(256)) * 8),
    "same size garbage": lambda file: file.write_bytes(b"7" * file.stat().st_size),
    "another entry's file": _swap,
    "a bit of its identity": lambda file: _flip(file, file.read_bytes().index(b"tiny")),
    "a bit of its data": lambda file: _flip(file, -7),
    "a directory": _directory,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_a_reported_miss_and_is_rebuilt(path: Path, damage: Callable[[Path], object]) -> None:
    """Scenarios 39, 41, 45, 46."""
    notes: list[str] = []
    with Store.open(path, on_note=notes.append) as store:
        for number in (1, 2):
            pages.write(store, number)
        damage(pages.object_file(path, 1))
        assert not pages.holds(store, 1)
        assert len(notes) == 1
        assert pages.key(1)[:12] in notes[0]
        assert "\n" not in notes[0]
        assert store.damaged == {pages.key(1)}
        assert store.stats().quarantined == 1
        pages.write(store, 1)
        assert pages.holds(store, 1)
        assert pages.holds(store, 2)
        assert len(notes) == 1


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_no_flipped_bit_gets_through(
    record_property: Callable[[str, object], None], store: Store, at: float, bit: int
) -> None:
    pages.write(store, 1)
    file = pages.object_file(store.path, 1)
    _flip(file, int(at * file.stat().st_size), bit)
    assert not pages.holds(store, 1)
    record_property("faults", 1)
    assert store.stats().quarantined <= 8, "the quarantine is bounded"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(left=st.floats(0, 1, exclude_max=True))
def test_no_cut_gets_through(record_property: Callable[[str, object], None], store: Store, left: float) -> None:
    pages.write(store, 1)
    file = pages.object_file(store.path, 1)
    with file.open("r+b") as opened:
        opened.truncate(int(left * file.stat().st_size))
    assert not store.contains(pages.key(1))
    assert not pages.holds(store, 1)
    record_property("faults", 1)


def test_the_checksum_has_a_switch(path: Path) -> None:
    with Store.open(path, verify_on_read=False) as store:
        pages.write(store, 1)
        _flip(pages.object_file(path, 1), -7)
        assert store.read(pages.key(1), pages.identity(1)) is not None
        _flip(pages.object_file(path, 1), 300)
        assert store.read(pages.key(1), pages.identity(1)) is None


def test_verify_finds_and_mends(path: Path) -> None:
    with Store.open(path) as store:
        for number in range(4):
            pages.write(store, number)
        _flip(pages.object_file(path, 1), -7)
        pages.object_file(path, 2).unlink()
        for fix in (False, True):
            verdicts = {verdict.key: verdict.verdict for verdict in store.verify(fix=fix)}
            assert verdicts[pages.key(1)] == "damaged"
            assert verdicts[pages.key(2)] == "missing"
            assert sorted(verdicts.values()) == ["damaged", "missing", "ok", "ok"]
        assert {verdict.verdict for verdict in store.verify()} == {"ok"}
        assert store.clear_quarantine() > 0
        assert store.stats().quarantined == 0


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["write", "remove", "vanish", "read", "reopen"]), st.integers(0, 5))))
def test_the_count_never_drifts(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]) -> None:
    """Files vanish from outside, whatever else happens: the total is that of the disk."""
    path = tmp_path_factory.mktemp("drift")
    store = Store.open(path, max_size=45_000)
    for step, number in steps:
        if step == "write":
            pages.write(store, number)
        elif step == "remove":
            store.remove([pages.key(number)])
        elif step == "vanish":
            pages.object_file(path, number).unlink(missing_ok=True)
        elif step == "read":
            pages.holds(store, number)
        else:
            store.close()
            store = Store.open(path, max_size=45_000)
        assert sum(file.stat().st_size for file in pages.files(path, "objects")) <= 45_000
    store.close()
    with Store.open(path) as store:
        assert store.stats().nbytes == sum(file.stat().st_size for file in pages.files(path, "objects"))


def test_deleting_frees_the_disk_at_once(store: Store) -> None:
    """Scenarios 53 and 54: tensors are files of their own, the index holds small values only."""
    for number in range(10):
        pages.write(store, number)
    size = sum(file.stat().st_size for file in pages.files(store.path, "objects"))
    assert store.remove([pages.key(number) for number in range(10)]) == size
    assert not pages.files(store.path, "objects")
    assert store.stats().index_bytes < 200_000


@pytest.mark.parametrize("harm", ["gone", "garbage", "emptied", "cut"])
def test_a_lost_index_is_made_anew_from_the_entries(path: Path, harm: str) -> None:
    with Store.open(path) as store:
        for number in range(30):
            pages.write(store, number)
    data = path / "index" / "data.mdb"
    if harm == "gone":
        shutil.rmtree(path / "index")
    else:
        whole = data.read_bytes()
        data.write_bytes({"garbage": b"\xa5" * len(whole), "emptied": b"", "cut": whole[:12288]}[harm])
    assert pages.check_whole(path, range(30)) == 30


def test_leftovers_are_collected_and_foreign_files_left_alone(path: Path) -> None:
    with Store.open(path) as store:
        pages.write(store, 1)
        (path / "tmp" / "dead.safetensors").write_bytes(b"half")
        stray = path / "objects" / "ab" / ("ab" * 32 + ".safetensors")
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"half")
    assert pages.check_whole(path, range(2)) == 1
    assert not stray.exists()


def test_a_folder_with_other_things_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(StoreUnavailable, match=r"thesis\.txt"):
        Store.open(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="file"):
        Store.open(tmp_path / "file")


def test_a_newer_store_is_refused(path: Path) -> None:
    Store.open(path).close()
    (path / "conduit-store.json").write_text('{"conduit_store": 99}')
    with pytest.raises(StoreUnavailable, match="another version"):
        Store.open(path)
