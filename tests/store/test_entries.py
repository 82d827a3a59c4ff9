"""Writing and reading: codecs, layers, notes, listings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from conduit_store import Store, StoreDamaged, StoreError, StoreFull
from conduit_store import entry as entry_module
from tests.store import pages

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]
SHAPES = st.lists(st.integers(0, 5), max_size=4)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data(), shapes=st.lists(SHAPES, min_size=1, max_size=4))
def test_exact_gives_back_every_bit(store: Store, data: st.DataObject, shapes: list[list[int]]) -> None:
    tensors = {
        f"t{number}": (torch.randn(shape) * 3).to(data.draw(st.sampled_from(DTYPES)))
        for number, shape in enumerate(shapes)
    }
    named = pages.identity(data.draw(st.integers(0, 2**62)))
    entry = store.read(store.write(named, tensors, {"shapes": shapes}).key, named)
    assert entry is not None
    assert list(entry.names) == sorted(tensors)
    for name, expected in tensors.items():
        read = entry.tensor(name)
        assert (read.dtype, read.shape) == (expected.dtype, expected.shape)
        assert torch.equal(read, expected)
    store.remove([entry.key])


def test_the_file_is_plain_safetensors_with_all_in_clear(store: Store) -> None:
    pages.write(store, 1)
    with safe_open(str(pages.object_file(store.path, 1)), framework="pt") as file:
        assert '"model_name":"tiny"' in file.metadata()["conduit"]
        for name, expected in pages.tensors(1).items():
            assert torch.equal(file.get_tensor(name), expected)


@pytest.mark.parametrize("codec", ["exact", "bf16", "int8"])
def test_a_layer_is_that_part_of_the_tensor(store: Store, codec: str) -> None:
    named = pages.identity(1, codec=codec)
    entry = store.read(pages.write(store, 1, codec=codec), named)
    assert entry is not None
    assert entry.identity == named
    assert entry.meta == pages.meta(1)
    for name in entry.names:
        for layer in range(3):
            assert torch.equal(entry.layer(name, layer), entry.tensor(name)[layer])


def test_a_layer_is_read_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly that layer's bytes, and the same ones through the mapping that many entries fall back to."""
    real, read = os.preadv, 0

    def counted(fd: int, buffers: list[memoryview], at: int) -> int:
        nonlocal read
        got = real(fd, buffers, at)
        read += got
        return got

    name, keys = pages.write(store, 1), pages.tensors(1)["keys"]
    entry = store.read(name, pages.identity(1))
    monkeypatch.setattr(entry_module, "_MAX_DESCRIPTORS", 0)
    mapped = store.read(name, pages.identity(1))
    assert entry is not None
    assert mapped is not None
    monkeypatch.setattr(os, "preadv", counted)
    assert torch.equal(entry.layer("keys", 2), keys[2])
    assert torch.equal(entry.layer("keys", -3), keys[0])
    assert read == 2 * keys[0].nbytes
    assert torch.equal(mapped.layer("keys", 2), keys[2])
    assert torch.equal(mapped.tensor("keys"), keys)
    assert read == 2 * keys[0].nbytes
    for opened in (entry, mapped):
        with pytest.raises(IndexError):
            opened.layer("keys", 3)
        with pytest.raises(KeyError):
            opened.tensor("nothing")


def test_a_file_cut_while_it_is_open_is_an_error(store: Store) -> None:
    """Scenario 41: no zeros, and no SIGBUS."""
    entry = store.read(pages.write(store, 1), pages.identity(1))
    assert entry is not None
    with pages.object_file(store.path, 1).open("r+b") as file:
        file.truncate(3000)
    with pytest.raises(StoreDamaged, match="cut"):
        entry.tensor("values")


def test_what_was_read_can_be_changed_without_changing_the_store(store: Store) -> None:
    entry = store.read(pages.write(store, 1), pages.identity(1))
    assert entry is not None
    entry.tensor("keys").zero_()
    assert pages.holds(store, 1)


NUMBERS = st.floats(-1e4, 1e4, width=32)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(NUMBERS, min_size=24, max_size=24), st.floats(-100, 100, width=32))
def test_int8_keeps_its_bound(store: Store, numbers: list[float], bias: float) -> None:
    """Half a step per channel for keys (whatever their offset), per token for values."""
    wide = torch.tensor(numbers).view(1, 2, 3, 4)
    keys = wide + bias
    named = pages.identity(hash(tuple(numbers)) & 0xFFFF, codec="int8")
    others = {"value_norms": torch.rand(1, 3), "embeddings": torch.randn(3, 8)}
    info = store.write(named, {"keys": keys, "values": wide, **others}, {})
    entry = store.read(info.key, named)
    assert entry is not None
    slack = 1e-6 * (keys.abs().amax() + wide.abs().amax()) + 1e-37
    step = (keys.amax(2, keepdim=True) - keys.amin(2, keepdim=True)) / 508
    assert bool(((entry.tensor("keys") - keys).abs() <= step + slack).all())
    step = wide.abs().amax(3, keepdim=True) / 254
    assert bool(((entry.tensor("values") - wide).abs() <= step + slack).all())
    for name, expected in others.items():
        assert torch.equal(entry.tensor(name), expected)
    store.remove([info.key])


def test_bf16_is_exact_for_a_bf16_model_and_bounded_for_others(store: Store) -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        named = pages.identity(1, codec="bf16", dtype=str(dtype))
        tensors = {name: tensor.to(dtype) for name, tensor in pages.tensors(1).items()}
        entry = store.read(store.write(named, tensors, {}).key, named)
        assert entry is not None
        assert entry.tensor("keys").dtype == dtype
        assert torch.equal(entry.tensor("value_norms"), tensors["value_norms"])
        if dtype is torch.float32:
            off = (entry.tensor("keys") - tensors["keys"]).abs()
            assert bool((off <= tensors["keys"].abs() * 2**-8).all())
        else:
            assert torch.equal(entry.tensor("keys"), tensors["keys"])


def test_codecs_take_less_room(store: Store) -> None:
    """Scenario 62: a codec is a choice, is part of the key, and shows in the statistics."""
    large = dict(pages.tensors(1, tokens=256))
    large["keys"], large["values"] = torch.randn(2, 4, 2, 256, 64).unbind()
    for codec in ("exact", "bf16", "int8"):
        store.write(pages.identity(1, codec=codec), large, {"tokens": 256})
    sizes = {group["codec"]: group["nbytes"] / group["pages"] for group in store.stats().groups}
    assert sizes["bf16"] < 0.55 * sizes["exact"]
    assert sizes["int8"] < 0.32 * sizes["exact"]


@pytest.mark.parametrize(
    ("codec", "tensors", "said"),
    [
        ("zip", {"keys": torch.zeros(1, 1, 1, 1)}, "zip"),
        ("int8", {"keys": torch.full((1, 1, 2, 1), float("inf"))}, "infinities"),
        ("exact", {"a.b": torch.zeros(1)}, "dot"),
        ("exact", {"keys": torch.zeros(2, dtype=torch.complex64)}, "complex64"),
    ],
)
def test_what_can_not_be_stored_is_said(store: Store, codec: str, tensors: dict[str, Any], said: str) -> None:
    with pytest.raises(StoreError, match=said):
        store.write(pages.identity(1, codec=codec), tensors, {})
    assert not store.entries()
    assert not pages.files(store.path, "tmp")


def test_notes_are_kept_and_small(path: Path) -> None:
    with Store.open(path) as store:
        store.remember("page", "k" * 5000, {"digest": "d", "notes": ["n"]})
        assert store.recall("page", "k" * 4999) is None
        assert store.recall("other", "k" * 5000) is None
        with pytest.raises(StoreError, match="too long"):
            store.remember("page", "k", "x" * 70_000)
    with Store.open(path) as store:
        assert store.recall("page", "k" * 5000) == {"digest": "d", "notes": ["n"]}


def test_pages_go_by_their_last_known_name(store: Store) -> None:
    first, second = pages.write(store, 1), pages.write(store, 2, codec="int8")
    store.label(first, "renamed.pdf", 7)
    rows = {row.key: row for row in store.select(document="*.pdf")}
    assert (rows[first].meta["document"], rows[first].meta["page"]) == ("renamed.pdf", 7)
    assert (rows[second].meta["document"], rows[second].meta["page"]) == ("report.pdf", 2)
    assert [row.key for row in store.select(document="renamed.pdf")] == [first]
    assert [row.key for row in store.select(codec="int8", model="ti*")] == [second]
    assert not store.select(model="other")
    assert not store.select(older_than=3600)
    assert len(store.select(older_than=-1, larger_than=1000)) == 2


def test_prune_says_before_it_does(store: Store) -> None:
    for number in range(4):
        pages.write(store, number)
    size = store.entries()[0].nbytes
    planned = store.prune(to_size=2 * size, dry_run=True)
    assert (len(planned.entries), planned.nbytes, len(store.entries())) == (2, 2 * size, 4)
    assert store.prune(to_size=2 * size).entries == planned.entries
    assert [pages.holds(store, number) for number in range(4)] == [False, False, True, True]
    assert len(store.prune(model="tiny").entries) == 2
    assert not pages.files(store.path, "objects")


def test_a_second_run_writes_no_byte(path: Path) -> None:
    """Scenarios 7, 8, 58: hits write nothing; a page is written once, at its own size."""

    def run() -> int:
        with Store.open(path) as store:
            for number in range(5):
                if not store.contains(pages.key(number)):
                    pages.write(store, number)
                store.label(pages.key(number), "report.pdf", number)
                store.remember("page", str(number), {"digest": number})
            return store.bytes_written

    def snapshot() -> dict[Path, tuple[int, int]]:
        found = [file for file in path.rglob("*") if file.is_file() and file.name != "lock.mdb"]
        return {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in found}

    assert run() == sum(file.stat().st_size for file in pages.files(path, "objects"))
    before = snapshot()
    assert run() == 0
    assert snapshot() == before


def test_writing_what_is_there_writes_nothing(store: Store) -> None:
    name = pages.write(store, 1)
    written = store.bytes_written
    assert pages.write(store, 1) == name
    assert store.bytes_written == written


def test_one_entry_over_the_cap_is_refused(path: Path) -> None:
    with Store.open(path, max_size=1000) as store, pytest.raises(StoreFull, match="limit"):
        pages.write(store, 1)
