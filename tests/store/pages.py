"""Small pages whose content follows from their number, and a checker for a whole store."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from conduit_store import Store, entry_key


def identity(number: int, *, codec: str = "exact", **changes: Any) -> dict[str, Any]:
    """The identity of page `number` of an imagined model."""
    fields = {
        "page": f"{number:064x}",
        "model_name": "tiny",
        "weights": "w" * 64,
        "dtype": "float32",
        "processor": {"class": "TinyImageProcessor", "backend": "pil"},
        "max_pixels": 4096,
        "context": "<user>",
        "revision": None,
        "codec": codec,
    }
    return fields | changes


def key(number: int, **changes: Any) -> str:
    """The key of page `number`."""
    return entry_key(identity(number, **changes))


@lru_cache(maxsize=400)
def tensors(number: int, *, tokens: int = 24, layers: int = 3) -> dict[str, Tensor]:
    """The tensors of page `number`: keys, values, norms and embeddings."""
    seeded = torch.Generator().manual_seed(number)
    keys = torch.randn(layers, 2, tokens, 8, generator=seeded)
    values = torch.randn(layers, 2, tokens, 8, generator=seeded)
    return {
        "keys": keys,
        "values": values,
        "value_norms": values.transpose(1, 2).flatten(2).norm(dim=-1),
        "embeddings": torch.randn(tokens, 16, generator=seeded),
    }


def meta(number: int) -> dict[str, Any]:
    """The meta of page `number`."""
    return {"document": "report.pdf", "page": number, "tokens": 24, "grid": [4, 6]}


def write(store: Store, number: int, **changes: Any) -> str:
    """Write page `number`; its key."""
    return store.write(identity(number, **changes), tensors(number), meta(number)).key


def holds(store: Store, number: int) -> bool:
    """Whether page `number` can be read; if so, every number of it must be right."""
    entry = store.read(key(number), identity(number))
    if entry is None:
        return False
    for name, expected in tensors(number).items():
        assert torch.equal(entry.tensor(name), expected), f"page {number}: {name} is wrong"
    return True


def files(path: Path, folder: str) -> list[Path]:
    """All files below a folder of the store."""
    return [found for found in (path / folder).rglob("*") if found.is_file()]


def object_file(path: Path, number: int, **changes: Any) -> Path:
    """The file of page `number`."""
    name = key(number, **changes)
    return path / "objects" / name[:2] / f"{name}.safetensors"


def check_whole(path: Path, numbers: range) -> int:
    """Open a store and prove that each page is a hit or a miss and that nothing is left over.

    Returns:
        pages that were hits.
    """
    notes: list[str] = []
    with Store.open(path, on_note=notes.append) as store:
        hits = 0
        for number in numbers:
            present = store.contains(key(number))
            assert holds(store, number) == present
            hits += present
        on_disk = {found.stem: found.stat().st_size for found in files(path, "objects")}
        assert {row.key: row.nbytes for row in store.entries()} == on_disk
        assert store.stats().nbytes == sum(on_disk.values())
        assert not files(path, "tmp")
        assert not store.damaged
    assert not [note for note in notes if "cache entry" in note]
    return hits
