"""The rendering child: `python -m conduit_cli.documents._worker`.

Reads requests on stdin, answers on what was stdout, holds one open document, draws on one thread.
Imports the standard library, Pillow and PyMuPDF only. It ends when its stdin ends.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Any, BinaryIO, Protocol

from conduit_cli.documents._wire import Message, Refusal, receive, row_strips, send

try:
    import resource
except ImportError:  # Windows: the parent's time limit is all there is
    resource = None  # type: ignore[assignment]

__all__ = ["main"]


class Reader(Protocol):
    """One open document."""

    pages: int
    notes: list[str]

    def size(self, number: int) -> tuple[float, float]:
        """Width and height of page `number` (from 0): points for a PDF, pixels for a picture."""

    def render(self, number: int, width: int, height: int) -> tuple[int, int, memoryview, list[str]]:
        """Width, height, RGB rows and notes of page `number` (from 0)."""


def main() -> None:
    """Serve until stdin ends."""
    requests, replies = _claim_pipes()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    send(replies, {"ready": True})
    reader: Reader | None = None
    while True:
        try:
            request = receive(requests)
        except EOFError:
            return
        _limit_cpu(request.get("seconds"))
        try:
            if request["op"] == "open":
                reader = None
                reader = _open(request)
                send(replies, {"pages": reader.pages, "notes": reader.notes})
            else:
                assert reader is not None
                _answer(reader, request, replies)
        except Refusal as refusal:
            send(replies, {"refused": refusal.code, "detail": refusal.detail})
        except MemoryError:
            send(replies, {"refused": "memory", "detail": ""})
        except Exception as error:  # FzErrorLimit and its kin derive from Exception alone
            verdict = Refusal("damaged", str(error) or type(error).__name__)
            send(replies, {"refused": verdict.code, "detail": verdict.detail})


def _claim_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Keep the pipes for the protocol: C libraries that print get the null device instead."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    sys.stdin = open(os.devnull)  # noqa: SIM115
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    return requests, replies


def _open(request: Message) -> Reader:
    reader: Reader
    path = request["path"]
    if request["kind"] == "pdf":
        from conduit_cli.documents._read_pdf import PdfReader

        _limit_memory(request["memory"])
        reader = PdfReader(path, request["password"])
    else:
        from conduit_cli.documents._read_image import ImageReader

        _limit_memory(request["memory"])
        reader = ImageReader(path, request["kind"], request["image_pixels"])
    return reader


def _answer(reader: Reader, request: Message, replies: BinaryIO) -> None:
    number = request["number"]
    if request["op"] == "size":
        width, height = reader.size(number)
        send(replies, {"size": [width, height]})
        return
    width, height, pixels, notes = reader.render(number, request["width"], request["height"])
    send(replies, {"width": width, "height": height, "notes": notes})
    for top, rows in row_strips(width, height):
        replies.write(pixels[top * width * 3 : (top + rows) * width * 3])
    replies.flush()


def _limit_memory(budget: int) -> None:
    """Cap the address space at what is mapped now plus `budget` bytes."""
    if resource is None:
        return
    mapped = 1 << 30
    with suppress(OSError, ValueError), open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    _lower(resource.RLIMIT_AS, mapped + budget)


def _limit_cpu(seconds: float | None) -> None:
    """End this process by itself should the parent die in the middle of an endless page."""
    if resource is None or seconds is None:
        return
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, int(usage.ru_utime + usage.ru_stime + 2 * seconds) + 5)


def _lower(kind: int, limit: int) -> None:
    assert resource is not None
    hard: Any = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (limit, hard))


if __name__ == "__main__":
    main()
