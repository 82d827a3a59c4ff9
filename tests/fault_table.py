"""`make faults`: run every test that breaks something on purpose, and print what was tried and survived.

A test stands for one fault, or for as many as it records under the property `faults` (each kill, each
flipped bit).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

__all__ = ["main"]

_KINDS = {
    "tests.store.test_kill": "writer killed with SIGKILL",
    "tests.store.test_damage": "entry or index damaged on disk",
    "tests.store.test_disk": "disk full, read-only or without locks",
    "tests.store.test_processes": "several processes, forks, threads",
    "tests.documents": "bad, hostile or odd documents and pictures",
    "tests.cli.test_bad_input": "bad input on the command line",
}


def main() -> int:
    """Run the tests and print the table; 1 if anything did not survive."""
    folders = [f"{name.replace('.', '/')}{'.py' if 'test_' in name else ''}" for name in _KINDS]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", *folders, f"--junitxml={report}", "-o", "junit_family=xunit1"]
        subprocess.run(command, check=False, stdout=sys.stderr)
        cases = list(ElementTree.parse(report).iter("testcase"))
    tried: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for case in cases:
        kind = next(name for start, name in _KINDS.items() if case.get("classname", "").startswith(start))
        values = [int(one.get("value", "0")) for one in case.iter("property") if one.get("name") == "faults"]
        if case.find("skipped") is not None:
            skipped[kind] += 1
            continue
        tried[kind] += sum(values) or 1
        lost[kind] += case.find("failure") is not None or case.find("error") is not None
    print(f"{'fault':45} {'tried':>6} {'survived':>9} {'skipped':>8}")
    for kind in _KINDS.values():
        print(f"{kind:45} {tried[kind]:6} {tried[kind] - lost[kind]:9} {skipped[kind]:8}")
    print(f"{'in all':45} {tried.total():6} {tried.total() - lost.total():9} {skipped.total():8}")
    return int(bool(lost.total()))


if __name__ == "__main__":
    sys.exit(main())
