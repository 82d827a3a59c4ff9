"""Ctrl-C during ingest leaves finished pages usable, and nothing else."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pymupdf

from tests.cli.conftest import Conduit


def test_ctrl_c_keeps_finished_pages(tmp_path: Path, conduit: Conduit) -> None:
    document = pymupdf.open()
    for number in range(200):
        page = document.new_page(width=600, height=400)
        page.insert_text((24, 90), f"Total: {number}", fontsize=44)
    path, store = tmp_path / "long.pdf", tmp_path / "store"
    document.save(path)
    document.close()

    command = [sys.executable, "-m", "conduit_cli", "ingest", str(path), "--store", str(store)]
    # a shell without job control starts what runs in its background with Ctrl-C ignored, and the tests with it
    heeded = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heeded
    ) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if line.startswith("page 3/200"):
                break
        child.send_signal(signal.SIGINT)
        rest = child.stderr.read()
    assert child.returncode == 130
    assert "Traceback" not in rest

    assert conduit("cache", "verify", "--store", store).code == 0
    assert not any((store / "tmp").iterdir())
    again = conduit("ingest", path, "--store", store, "--pages", "1-3", "-q")
    assert (again.code, again.out.split(";")[0]) == (0, "3 pages: 3 present")
