"""Keys: everything counts, nothing is cut, absent is not the same as missing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import conduit_store
from conduit_store import Store, StoreIdentityMismatch, census, container, entry_key, handle, keeping, room, writing
from conduit_store import identity as identity_module
from tests.store import pages

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
IDENTITIES = st.dictionaries(st.text(), JSON, max_size=5)
CHANGES: list[dict[str, Any]] = [
    {"page": "f" * 64},
    {"weights": "v" * 64},
    {"revision": "main"},
    {"dtype": "bfloat16"},
    {"processor": {"class": "TinyImageProcessorFast", "backend": "pil"}},
    {"processor": {"class": "TinyImageProcessor", "backend": "torchvision"}},
    {"max_pixels": 8192},
    {"context": "<system>"},
    {"codec": "int8"},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_a_change_of_any_field_is_a_miss(store: Store, change: dict[str, Any]) -> None:
    """Scenarios 1, 9, 10, 13, 16, 17: fine-tuned weights under the same name, another revision, dtype, ..."""
    pages.write(store, 1)
    changed = pages.identity(1) | change
    assert not store.contains(entry_key(changed))
    assert store.read(entry_key(changed), changed) is None
    assert pages.holds(store, 1)


def test_keys_are_whole_digests(store: Store) -> None:
    """Scenario 2: 256 bits in the key, in the index and in the file's name."""
    name = pages.write(store, 1)
    assert re.fullmatch("[0-9a-f]{64}", name)
    assert [row.key for row in store.entries()] == [name]
    assert pages.object_file(store.path, 1).stem == name
    near = name[:-1] + ("0" if name[-1] != "0" else "1")
    assert not store.contains(near)
    assert not store.contains(name[:16])
    assert not store.contains("../" * 20 + "abcd")


@given(IDENTITIES, IDENTITIES)
def test_keys_agree_exactly_when_identities_do(left: dict[str, Any], right: dict[str, Any]) -> None:
    same = identity_module.canonical_json(left) == identity_module.canonical_json(right)
    assert (entry_key(left) == entry_key(right)) == same
    assert entry_key(dict(reversed(left.items()))) == entry_key(left)


def test_absent_is_written_out() -> None:
    assert entry_key({"a": None}) != entry_key({})
    with pytest.raises(TypeError, match="strings"):
        entry_key({1: "one"})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="JSON"):
        entry_key({"a": float("nan")})


def test_a_mismatching_header_is_an_error_that_names_both_sides(store: Store) -> None:
    """Scenario 11: a key that was made without one of the fields must not give another model's state."""
    name = pages.write(store, 1)
    with pytest.raises(StoreIdentityMismatch, match=r"tiny-finetuned.*tiny"):
        store.read(name, pages.identity(1, model_name="tiny-finetuned"))
    assert pages.holds(store, 1)


def test_entries_of_an_older_format_are_ignored_reported_and_prunable(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 12."""
    with Store.open(path) as store:
        old = pages.write(store, 1)
    for module in (identity_module, container, room, census, handle, keeping, writing):
        monkeypatch.setattr(module, "FORMAT", 2)
    with Store.open(path) as store:
        assert not store.contains(old)
        assert not pages.holds(store, 1)
        assert not store.contains(pages.key(1))
        pages.write(store, 1)
        stats = store.stats()
        assert (stats.entries, stats.outdated) == (2, 1)
        assert {verdict.verdict for verdict in store.verify()} == {"ok", "outdated"}
        assert [row.key for row in store.prune(dry_run=True).entries] == [old]
        assert store.stats().entries == 2
        assert store.prune().nbytes == stats.outdated_bytes
        assert pages.holds(store, 1)
        assert [row.format for row in store.entries()] == [2]


def test_the_public_names_are_all_listed() -> None:
    defined = {
        name
        for name, value in vars(conduit_store).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("conduit_store.")
    }
    assert defined <= set(conduit_store.__all__)
    assert all(hasattr(conduit_store, name) for name in conduit_store.__all__)
    assert sorted(conduit_store.__all__) == sorted(set(conduit_store.__all__))


def test_nothing_is_pickled() -> None:
    """Scenario 61: reading a store must never be able to run code."""
    folder = Path(str(conduit_store.__file__)).parent
    for source in folder.glob("*.py"):
        assert not re.search(r"pickle|torch\.(load|save)\b|marshal|shelve|\beval\(", source.read_text()), source
