"""The parent's side of the rendering child: start, ask, kill, start again."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from conduit_cli.documents._limits import Limits
from conduit_cli.documents._wire import Message, Refusal, read_exactly, receive, row_strips, send

__all__ = ["Renderer"]

_START_SECONDS = 60.0
_PACKAGE_ROOT = Path(__file__).resolve().parents[2]


class Renderer:
    """One child process with one document open in it.

    It is started on the first request, killed when a request takes longer than the limit, and
    started anew (the document opened again) on the next one. Requests come one at a time.
    """

    def __init__(self, path: str, kind: str, password: str | None, limits: Limits) -> None:
        self._open_request: Message = {
            "op": "open",
            "path": path,
            "kind": kind,
            "password": password,
            "memory": limits.memory,
            "image_pixels": limits.image_pixels,
            "seconds": limits.seconds,
        }
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._finalizer: Any = None
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Process id of the running child, or None."""
        return None if self._process is None else self._process.pid

    def open(self) -> Message:
        """Open the document: `pages` and `notes`. Raises Refusal."""
        with self._lock:
            return self._ensure()

    def size(self, number: int) -> tuple[float, float]:
        """Width and height of page `number` (from 1). Raises Refusal."""
        with self._lock:
            self._ensure()
            with self._deadline(self._limits.seconds) as process:
                reply = _ask(process, self._page_request("size", number))
        width, height = reply["size"]
        return float(width), float(height)

    def render(self, number: int, width: int, height: int) -> tuple[Message, list[bytes]]:
        """The reply (`width`, `height`, `notes`) and the RGB strips of page `number`. Raises Refusal."""
        with self._lock:
            self._ensure()
            with self._deadline(self._limits.seconds) as process:
                request = self._page_request("render", number) | {"width": width, "height": height}
                reply = _ask(process, request)
                assert process.stdout is not None
                wide = reply["width"]
                strips = [
                    read_exactly(process.stdout, rows * wide * 3) for _, rows in row_strips(wide, reply["height"])
                ]
        return reply, strips

    def close(self) -> None:
        """End the child."""
        if self._finalizer is not None:
            self._finalizer()
        self._process = self._finalizer = None

    def _page_request(self, op: str, number: int) -> Message:
        return {"op": op, "number": number - 1, "seconds": self._limits.seconds}

    def _ensure(self) -> Message:
        """A running child with the document open."""
        if self._process is not None and self._process.poll() is None:
            return {}
        self.close()
        self._process = _start()
        self._finalizer = weakref.finalize(self, _end, self._process)
        with self._deadline(_START_SECONDS) as process:
            assert process.stdout is not None
            receive(process.stdout)
        try:
            with self._deadline(self._limits.seconds) as process:
                return _ask(process, self._open_request)
        except Refusal:
            self.close()
            raise

    @contextmanager
    def _deadline(self, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
        """The child, killed after `seconds` or if anything but a Refusal leaves the block.

        An interrupted exchange (Ctrl-C) leaves half a reply in the pipe: that child is of no more use.
        """
        process = self._process
        assert process is not None
        late = threading.Event()

        def expire() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            yield process
        except Refusal:
            raise
        except (EOFError, OSError) as error:
            self.close()
            raise Refusal("late" if late.is_set() else "died") from error
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()


def _ask(process: subprocess.Popen[bytes], request: Message) -> Message:
    assert process.stdin is not None and process.stdout is not None
    send(process.stdin, request)
    reply = receive(process.stdout)
    if "refused" in reply:
        raise Refusal(reply["refused"], reply["detail"])
    return reply


def _start() -> subprocess.Popen[bytes]:
    """A child that imports from where we import, whatever the current directory holds."""
    roots = dict.fromkeys([str(_PACKAGE_ROOT), *(entry for entry in sys.path if entry)])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(roots), "PYTHONSAFEPATH": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "conduit_cli.documents._worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            if pipe is not None:
                pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(5)
