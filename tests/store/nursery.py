"""Real processes for the tests, forked from one that has imported torch already.

Run as a script it reads commands from stdin, one JSON object a line: `{"do", "args", "kill_after",
"die_at"}` forks a child that calls a function of `tests.store.actions`; `{"wait": pid}` reports its end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]


class Nursery:
    """Starts children; each is a process of its own that can be killed."""

    def __enter__(self) -> Nursery:
        paths = [str(ROOT), str(ROOT / "store"), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=ROOT,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def start(self, action: str, *, kill_after: float | None = None, die_at: int | None = None, **args: Any) -> int:
        """Fork a child for an action; its pid. With `kill_after` (seconds), it is gone on return."""
        sent = {"do": action, "args": args, "kill_after": kill_after, "die_at": die_at}
        return int(self._ask(sent))

    def wait(self, pid: int) -> int:
        """Exit code of a child, negative for a signal."""
        return int(self._ask({"wait": pid}))

    def run(self, action: str, **args: Any) -> int:
        """Start and wait."""
        return self.wait(self.start(action, **args))

    def _ask(self, command: dict[str, Any]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


def _kill_self_at(point: int) -> None:
    """Die by SIGKILL at the n-th call that changes the disk: half of the points before it, half after."""
    calls = 0

    def counted(real: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls * 2 - 1 == point:
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*args, **options)
            if calls * 2 == point:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for name in ("write", "fsync", "replace", "unlink", "mkdir", "posix_fallocate"):
        setattr(os, name, counted(getattr(os, name)))


def _child(command: dict[str, Any]) -> None:
    from tests.store import actions

    code = 1
    try:
        if command["die_at"] is not None:
            _kill_self_at(command["die_at"])
        getattr(actions, command["do"])(**command["args"])
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def main() -> None:
    """Serve commands until stdin ends."""
    import torch

    import tests.store.actions  # noqa: F401  (so that children need not import it)

    torch.set_num_threads(1)
    for line in sys.stdin:
        command = json.loads(line)
        if "wait" in command:
            print(os.waitstatus_to_exitcode(os.waitpid(command["wait"], 0)[1]), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            _child(command)
        if command["kill_after"] is not None:
            time.sleep(command["kill_after"])
            os.kill(pid, signal.SIGKILL)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
