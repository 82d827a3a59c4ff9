"""What a prompt must fit into, checked before anything is computed."""

from __future__ import annotations

import os

from conduit_cli.errors import InputError
from conduit_cli.families.base import Family

__all__ = ["check_length", "check_memory"]

_MEMORY_SHARE = 0.8


def check_length(model: Family, tokens: int, pages: int) -> None:
    """Refuse a prompt that is longer than the model's context.

    Raises:
        InputError: it is.
    """
    text = model.config.get_text_config()
    limit = getattr(text, "max_position_embeddings", None)
    if limit is not None and tokens > limit:
        raise InputError(
            f"these {pages} pages and the question take {tokens} tokens, but the model reads {limit}",
            "choose fewer pages with --pages, or a smaller --max-pixels",
        )


def check_memory(model: Family, tokens: int) -> None:
    """Refuse a prompt whose K/V would not fit into memory, rather than be killed half-way.

    Raises:
        InputError: it would not.
    """
    decoder = model.decoder
    if decoder.device.type != "cpu":
        return
    g = decoder.geometry
    need = 2 * g.layers * g.kv_heads * g.head_dim * tokens * decoder.dtype.itemsize
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > _MEMORY_SHARE * have:
        raise InputError(
            f"the keys and values of {tokens} tokens take {need / 2**30:.1f} GiB of this machine's "
            f"{have / 2**30:.1f} GiB",
            "choose fewer pages with --pages, or a smaller --max-pixels",
        )
