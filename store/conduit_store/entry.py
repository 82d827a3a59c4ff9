"""An entry open for reading: tensors are read when asked for, whole or a layer at a time."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from conduit_store import codecs
from conduit_store.container import Header, Stored, tensor_bytes
from conduit_store.errors import StoreDamaged

__all__ = ["Entry"]

# Reading into a fresh tensor is several times faster than touching a mapping (one page fault per 4 to
# 64 KiB), and a file that is cut while it is open is an error instead of a SIGBUS. But each entry then
# holds a descriptor, and a process has about a thousand: beyond this many, entries are mapped instead.
_MAX_DESCRIPTORS = 256
_descriptors = 0
_guard = threading.Lock()


class Entry:
    """One page's tensors. Stays readable when the entry is evicted or quarantined meanwhile.

    Attributes:
        key: 64 hex digits.
        identity, meta: from the file's own header.
        nbytes: size of the file.
    """

    def __init__(self, fd: int, header: Header) -> None:
        record = header.record
        self.key: str = record["key"]
        self.identity: Mapping[str, Any] = record["identity"]
        self.meta: Mapping[str, Any] = record["meta"]
        self.nbytes = header.file_size
        self._schemes: Mapping[str, Mapping[str, str]] = record["schemes"]
        self._tensors = header.tensors
        self._fd = _keep(self, fd)
        self._map = None if self._fd is not None else _mapped(fd, self.nbytes)

    @property
    def names(self) -> Sequence[str]:
        """Names of the tensors that were written."""
        return sorted(self._schemes)

    def tensor(self, name: str) -> Tensor:
        """A whole tensor in its original dtype and shape; the caller may change it.

        Raises:
            KeyError: the entry has no such tensor.
            StoreDamaged: the file was cut after the entry was opened.
        """
        return codecs.decode(self._schemes[name], name, lambda stored: self._read(self._tensors[stored]))

    def layer(self, name: str, layer: int) -> Tensor:
        """`tensor(name)[layer]`, reading only that layer's bytes.

        Raises:
            KeyError, StoreDamaged: as `tensor`.
            IndexError: there is no such layer.
        """
        return codecs.decode(self._schemes[name], name, lambda stored: self._layer(stored, layer))

    def _layer(self, name: str, layer: int) -> Tensor:
        whole = self._tensors[name]
        index = range(whole.shape[0])[layer]
        size = (whole.stop - whole.start) // whole.shape[0]
        start = whole.start + index * size
        return self._read(Stored(whole.dtype, whole.shape[1:], start, start + size))

    def _read(self, where: Stored) -> Tensor:
        if self._map is not None and where.start < where.stop:
            return self._map[where.start : where.stop].view(where.dtype).view(where.shape)
        tensor = torch.empty(where.shape, dtype=where.dtype)
        target, at = tensor_bytes(tensor), where.start
        while target:
            got = os.preadv(self._fd or 0, [target], at)
            if got <= 0:
                raise StoreDamaged(
                    f"cache entry {self.key[:12]} was cut while it was read", "conduit cache verify --fix"
                )
            target, at = target[got:], at + got
        return tensor


def _keep(owner: Entry, fd: int) -> int | None:
    """A descriptor of the entry's own, closed with it; None if there are enough already."""
    global _descriptors
    with _guard:
        if _descriptors >= _MAX_DESCRIPTORS:
            return None
        _descriptors += 1
    kept = os.dup(fd)
    weakref.finalize(owner, _close, kept)
    return kept


def _close(fd: int) -> None:
    global _descriptors
    os.close(fd)
    _descriptors -= 1  # a finalizer may run inside `_keep`: no lock here; an off-by-one does no harm


def _mapped(fd: int, size: int) -> Tensor:
    """The file's bytes, mapped privately through the descriptor that was checked (a path may change)."""
    folder = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    return torch.from_file(f"{folder}/{fd}", shared=False, size=size, dtype=torch.uint8)
