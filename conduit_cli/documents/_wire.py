"""The words that parent and rendering child exchange over two pipes.

A message is a 4-byte big-endian length and that many bytes of ASCII JSON; a reply with `width` and
`height` is followed by exactly `width * height * 3` bytes of RGB rows. No pickle.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from typing import IO, Any

__all__ = ["Refusal", "receive", "row_strips", "send", "speakable"]

Message = dict[str, Any]

_LENGTH = struct.Struct(">I")
_MAX_MESSAGE = 1 << 20
_MUPDF_CODE = re.compile(r"^code=\d+: ")
_STRIP_BYTES = 4 << 20


class Refusal(Exception):
    """A reader's verdict on a file or page: a code that the parent turns into a sentence.

    Codes: `locked`, `password`, `empty`, `damaged`, `pixels`, `memory`, `missing`, `format`.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = speakable(_MUPDF_CODE.sub("", detail))


def speakable(text: object, limit: int = 160) -> str:
    """`text` on one line, without control characters or lone surrogates, at most `limit` long."""
    clean = str(text).encode("utf-8", "replace").decode("utf-8")
    clean = " ".join("".join(c if c.isprintable() else " " for c in clean).split())
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def send(stream: IO[bytes], message: Message) -> None:
    """Write one message and flush it. Raises OSError if the other side is gone."""
    data = json.dumps(message, allow_nan=False).encode("ascii")
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Message:
    """Read one message. Raises EOFError if the other side is gone or speaks something else."""
    (length,) = _LENGTH.unpack(read_exactly(stream, _LENGTH.size))
    if length > _MAX_MESSAGE:
        raise EOFError("not a message")
    message = json.loads(read_exactly(stream, length))
    if not isinstance(message, dict):
        raise EOFError("not a message")
    return message


def read_exactly(stream: IO[bytes], count: int) -> bytes:
    """`count` bytes of `stream`. Raises EOFError if it ends before."""
    data = stream.read(count)
    if data is None or len(data) != count:
        raise EOFError("the stream ended")
    return data


def row_strips(width: int, height: int) -> Iterator[tuple[int, int]]:
    """(first row, rows) of the strips of about 4 MiB in which pixels are passed and hashed."""
    rows = max(1, _STRIP_BYTES // (3 * width))
    for top in range(0, height, rows):
        yield top, min(rows, height - top)
