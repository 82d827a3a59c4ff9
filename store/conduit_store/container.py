"""One page's file: a safetensors file whose header can be told apart from any damaged one.

The bytes are ordinary safetensors. The header is a function of the record kept in its metadata
(identity, meta, layout, checksums), so a reader rebuilds it and compares: any changed byte shows.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from conduit_store.errors import StoreDamaged, StoreError
from conduit_store.identity import FORMAT, JSON, canonical_json, entry_key

__all__ = ["Header", "Stored", "check_data", "make_header", "read_header", "tensor_bytes"]

_CODES = {
    torch.float64: "F64", torch.int64: "I64", torch.float32: "F32", torch.int32: "I32",
    torch.float16: "F16", torch.bfloat16: "BF16", torch.int16: "I16",
    torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
DTYPES = {code: dtype for dtype, code in _CODES.items()}
_MAX_HEADER = 16 << 20
_CHUNK = 1 << 20
_THREADS, _THREADS_FROM = 4, 8 << 20


@dataclass(frozen=True)
class Stored:
    """Where one stored tensor lies: bytes `start` to `stop` of the file."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Header:
    """A parsed header.

    Attributes:
        raw: the header's bytes, length prefix included; they end on a multiple of 64.
        record: format, key, identity, meta, schemes, tensors, crc32.
        tensors: layout by stored name.
    """

    raw: bytes
    record: dict[str, Any]
    tensors: dict[str, Stored]

    @property
    def digest(self) -> str:
        """SHA-256 of the header: it covers the checksums, so it names the file's whole content."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def file_size(self) -> int:
        """The exact size of a whole file with this header."""
        return max((t.stop for t in self.tensors.values()), default=len(self.raw))


def tensor_bytes(tensor: Tensor) -> memoryview:
    """The tensor's numbers as bytes, without a copy."""
    flat = tensor.contiguous().reshape(-1)
    array: Any = flat.view(torch.uint8).numpy()
    return memoryview(array) if flat.numel() else memoryview(b"")


def make_header(
    identity: Mapping[str, JSON],
    meta: Mapping[str, JSON],
    schemes: Mapping[str, Mapping[str, str]],
    tensors: Mapping[str, Tensor],
) -> Header:
    """The header for these (already encoded) tensors, with their checksums.

    Raises:
        StoreError: a tensor's dtype has no place in a safetensors file.
    """
    for name, tensor in tensors.items():
        if tensor.dtype not in _CODES:
            raise StoreError(f"{name} has the dtype {tensor.dtype}, which the store can't hold")
    # Wide types first, as safetensors itself does: every tensor is then aligned in the file.
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    record: dict[str, Any] = {
        "format": FORMAT,
        "key": entry_key(identity),
        "identity": dict(identity),
        "meta": dict(meta),
        "schemes": {name: dict(scheme) for name, scheme in schemes.items()},
        "tensors": [[name, _CODES[tensors[name].dtype], list(tensors[name].shape)] for name in order],
        "crc32": {name: _checksums(tensors[name]) for name in order},
    }
    return _render(cast("dict[str, Any]", json.loads(canonical_json(record))))


def _checksums(tensor: Tensor) -> list[int]:
    """One CRC-32 per layer of a stacked tensor, one for any other."""
    slices = list(tensor) if tensor.ndim >= 3 else [tensor]
    return [zlib.crc32(tensor_bytes(part)) for part in slices]


def _render(record: dict[str, Any]) -> Header:
    table: dict[str, Any] = {"__metadata__": {"conduit": canonical_json(record)}}
    spans: list[tuple[str, torch.dtype, tuple[int, ...], int, int]] = []
    at = 0
    for name, code, shape in record["tensors"]:
        dtype = DTYPES[code]
        size = dtype.itemsize
        for side in shape:
            size *= side
        table[name] = {"dtype": code, "shape": shape, "data_offsets": [at, at + size]}
        spans.append((name, dtype, tuple(shape), at, at + size))
        at += size
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    text += b" " * (-(8 + len(text)) % 64)
    raw = len(text).to_bytes(8, "little") + text
    base = len(raw)
    layout = {name: Stored(dtype, shape, base + a, base + b) for name, dtype, shape, a, b in spans}
    return Header(raw, record, layout)


def read_header(fd: int) -> Header:
    """Read and check the header of an open file, and the file's size against it.

    Raises:
        StoreDamaged: what is wrong, without the file's name (the caller knows it).
    """
    size = os.fstat(fd).st_size
    prefix = os.pread(fd, 8, 0)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < 8 or length > min(_MAX_HEADER, size - 8):
        raise StoreDamaged(f"it is cut short or no entry at all ({size} bytes)")
    raw = prefix + os.pread(fd, length, 8)
    try:
        record = json.loads(json.loads(raw[8:])["__metadata__"]["conduit"])
        if record["format"] != FORMAT:
            raise StoreDamaged(f"it has format {record['format']}, this is format {FORMAT}")
        header = _render(record)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise StoreDamaged("its header can't be read") from error
    if header.raw != raw:
        raise StoreDamaged("its header was altered")
    if header.file_size != size:
        raise StoreDamaged(f"it has {size} bytes where its header says {header.file_size}")
    return header


def check_data(fd: int, header: Header) -> None:
    """Compare every tensor's bytes with their checksums, in chunks of 1 MiB (nothing is mapped).

    A large file is read by a few threads: zlib and the system call both let go of the interpreter's lock.

    Raises:
        StoreDamaged: a checksum differs.
    """
    parts = list(_parts(header))
    if header.file_size < _THREADS_FROM:
        for part in parts:
            _check_part(fd, *part)
        return
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        for _ in pool.map(lambda part: _check_part(fd, *part), parts):
            pass


def _parts(header: Header) -> Iterator[tuple[str, int, int, int]]:
    """Name, start, stop and expected checksum of each part."""
    for name, stored in header.tensors.items():
        sums: list[int] = header.record["crc32"][name]
        step = (stored.stop - stored.start) // max(1, len(sums))
        for part, expected in enumerate(sums):
            start = stored.start + part * step
            yield name, start, start + step, expected


def _check_part(fd: int, name: str, at: int, stop: int, expected: int) -> None:
    buffer = memoryview(bytearray(min(_CHUNK, stop - at)))
    crc = 0
    while at < stop:
        got = os.preadv(fd, [buffer[: stop - at]], at)
        if got <= 0:
            raise StoreDamaged("it ends early")
        crc = zlib.crc32(buffer[:got], crc)
        at += got
    if crc != expected:
        raise StoreDamaged(f"the checksum of its {name} is off")
