"""`conduit --help` is quick and imports nothing heavy; the public names exist."""

from __future__ import annotations

import subprocess
import sys
import time

import conduit_cli

_HEAVY = ("torch", "transformers", "pymupdf", "lmdb", "PIL")


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_help_imports_nothing_heavy() -> None:
    loaded = _python(
        "import sys\nfrom conduit_cli.app import main\ncode = main(['--help'])\n"
        f"print('LOADED', code, [name for name in {_HEAVY!r} if name in sys.modules])"
    )
    assert loaded.splitlines()[-1] == "LOADED 0 []"


def test_help_is_quick() -> None:
    times = []
    for _ in range(3):  # the best of three: the machine may be busy, the command must not be slow
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "conduit_cli", "--help"], capture_output=True, check=True)
        times.append(time.perf_counter() - start)
    assert min(times) < 1.0


def test_importing_the_library_is_light() -> None:
    code = f"import sys, conduit_cli\nprint([name for name in {_HEAVY!r} if name in sys.modules])"
    assert _python(code).strip() == "[]"


def test_every_public_name_exists() -> None:
    for name in conduit_cli.__all__:
        assert getattr(conduit_cli, name) is not None
