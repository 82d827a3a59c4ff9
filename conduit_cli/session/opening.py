"""Opening the two things that a session needs: a store and a model."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conduit_cli.models.loading import Model
    from conduit_store import Store

__all__ = ["default_store_path", "load_model", "open_store", "open_store_or_scratch"]


def default_store_path() -> Path:
    """`CONDUIT_STORE`, else `conduit/` in the user's cache folder."""
    from platformdirs import user_cache_path

    named = os.environ.get("CONDUIT_STORE")
    return Path(named).expanduser() if named else user_cache_path("conduit")


def open_store(path: Path | None = None, *, max_size: int | None = None, verify: bool = True) -> Store:
    """Open (or make) a store.

    Args:
        path: its folder; None takes `default_store_path()`.
        max_size: cap in bytes; None takes `max_size` of the user's config file (as `"20G"`), else the store's
            default.
        verify: check every entry's content checksum when it is read.

    Raises:
        StoreError: it can't be opened.
    """
    from conduit_cli.models.names import read_config
    from conduit_cli.units import parse_size
    from conduit_store import Store

    if max_size is None and "max_size" in (config := read_config()):
        max_size = parse_size(str(config["max_size"]))
    return Store.open(path or default_store_path(), max_size=max_size, verify_on_read=verify)


@contextmanager
def open_store_or_scratch(
    path: Path | None = None,
    *,
    max_size: int | None = None,
    verify: bool = True,
    on_note: Callable[[str], None] = lambda _text: None,
) -> Iterator[Store]:
    """`open_store`, or, where its disk is full, read-only or without locks, a store that is gone afterwards.

    Raises:
        StoreError: it can't be opened for another reason.
    """
    from conduit_store.errors import StoreFull, StoreLockless, StoreReadOnly

    try:
        store = open_store(path, max_size=max_size, verify=verify)
    except (StoreFull, StoreLockless, StoreReadOnly) as error:
        on_note(f"{error.message}; answering without storing")
        with tempfile.TemporaryDirectory(prefix="conduit-") as folder, open_store(Path(folder)) as scratch:
            yield scratch
        return
    with store:
        yield store


def load_model(
    name: str | None = None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    max_pixels: int | None = None,
    offline: bool = False,
) -> Model:
    """Load a model; None takes `CONDUIT_MODEL`, the user's choice, or the bundled one.

    Raises:
        ModelError: it can't be found, loaded or served.
    """
    from conduit_cli.models.loading import load
    from conduit_cli.models.names import resolve_model_name

    chosen, _origin = resolve_model_name(name)
    return load(chosen, device=device, dtype=dtype, max_pixels=max_pixels, offline=offline)
