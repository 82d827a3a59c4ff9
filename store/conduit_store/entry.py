"""An entry open for reading: a mapped file, decoded tensor by tensor or layer by layer."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from conduit_store import codecs
from conduit_store.container import Header

__all__ = ["Entry"]


class Entry:
    """One page's tensors, read from disk when asked for.

    The mapping is private and stays valid when the entry is evicted meanwhile; it keeps no file open.

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
        # Mapped through the descriptor that was checked: the path may name another file by now.
        device = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
        self._bytes = torch.from_file(f"{device}/{fd}", shared=False, size=self.nbytes, dtype=torch.uint8)

    @property
    def names(self) -> Sequence[str]:
        """Names of the tensors that were written."""
        return sorted(self._schemes)

    def tensor(self, name: str) -> Tensor:
        """A whole tensor in its original dtype and shape; a view of the mapped file if it needs no decoding.

        Raises:
            KeyError: the entry has no such tensor.
        """
        return codecs.decode(self._schemes[name], name, self._stored)

    def layer(self, name: str, layer: int) -> Tensor:
        """`tensor(name)[layer]`, reading only that layer's bytes."""
        return codecs.decode(self._schemes[name], name, lambda stored: self._stored(stored)[layer])

    def _stored(self, name: str) -> Tensor:
        where = self._tensors[name]
        if where.start == where.stop:
            return torch.empty(where.shape, dtype=where.dtype)
        return self._bytes[where.start : where.stop].view(where.dtype).view(where.shape)
