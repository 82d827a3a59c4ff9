"""Measure what the checksum costs and what the codecs take: `python -m tests.store.measure [FOLDER]`.

The page is one of Qwen2.5-VL-3B's shape: 36 layers, 2 KV heads of 128, 1024 visual tokens, bfloat16.
"""

from __future__ import annotations

import sys
import tempfile
import time

import torch

from conduit_store import CODECS, Store
from tests.store import pages


def main() -> None:
    """Print one line per codec."""
    seeded = torch.Generator().manual_seed(0)
    keys, values = torch.randn(2, 36, 2, 1024, 128, generator=seeded).bfloat16().unbind()
    page = {
        "keys": keys,
        "values": values,
        "value_norms": torch.rand(36, 1024),
        "embeddings": torch.randn(1024, 2048, generator=seeded).bfloat16(),
    }
    where = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(dir=where) as folder, Store.open(folder) as store:
        for codec in CODECS:
            identity = pages.identity(0, codec=codec)
            start = time.perf_counter()
            info = store.write(identity, page, {})
            wrote = time.perf_counter() - start
            best = {True: [9.0, 9.0], False: [9.0, 9.0]}
            for turn in range(20):
                store._verify_on_read = turn % 2 == 0
                start = time.perf_counter()
                entry = store.read(info.key, identity)
                opened = time.perf_counter()
                assert entry is not None
                for name in ("keys", "values"):
                    for layer in range(36):
                        entry.layer(name, layer).clone()
                done = time.perf_counter()
                pair = best[store._verify_on_read]
                pair[0], pair[1] = min(pair[0], opened - start), min(pair[1], done - start)
            print(
                f"{codec:5} {info.nbytes:>9} bytes, {info.nbytes // 1024} per token; write {wrote * 1e3:.0f} ms; "
                f"read checked {best[True][0] * 1e3:.1f} ms, unchecked {best[False][0] * 1e3:.1f} ms; "
                f"read and copy every layer: checked {best[True][1] * 1e3:.1f} ms, "
                f"unchecked {best[False][1] * 1e3:.1f} ms, "
                f"share of the checksum {1 - best[False][1] / best[True][1]:.0%}"
            )


if __name__ == "__main__":
    main()
