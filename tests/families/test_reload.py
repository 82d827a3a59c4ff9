"""Ingest in one process, ask in another: what is on disk is all that is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from safetensors.torch import load_file

from conduit_cli import open_store
from tests.engine.stock import chat
from tests.families.conftest import Case
from tests.families.tiny import MATRIX


def test_pages_of_every_family_are_read_by_another_process(cases: Callable[[str], Case], tmp_path: Path) -> None:
    work, expected = [], {}
    with open_store(tmp_path / "store") as store:
        for name in MATRIX:
            case = cases(name)
            digests = [f"{name} {index}" for index in range(len(case.pages))]
            for digest, page in zip(digests, case.pages, strict=True):
                identity = {**case.model.identity, "page": digest, "codec": "exact", "engine": 1}
                store.write(identity, page.tensors, page.meta)
            work.append([str(case.folder), digests])
            expected[name] = case.stock.logits(chat(3), case.images)
    (tmp_path / "work.json").write_text(json.dumps(work), "utf-8")
    root = Path(__file__).parents[2]
    environment = {k: v for k, v in os.environ.items() if k not in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")}
    environment["PYTHONPATH"] = f"{root}{os.pathsep}{root / 'store'}"
    done = subprocess.run(
        [sys.executable, "-m", "tests.families.reader", *(str(tmp_path / n) for n in ("work.json", "store", "out"))],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    served = load_file(tmp_path / "out")
    assert set(served) == set(MATRIX)
    for name, logits in served.items():
        assert (logits - expected[name]).abs().max() <= 1e-4, name
