"""What is known of models without loading their weights: where they are, and what a page takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from conduit_cli.engine.vlm import Geometry
from conduit_cli.errors import ModelError
from conduit_cli.families import family_for, family_of_type, model_types
from conduit_cli.families.base import Family
from conduit_cli.models.locate import Located, locate
from conduit_cli.models.names import BUNDLED
from conduit_cli.models.reading import image_processor_of, planned_dtype, read_model_config

__all__ = ["KnownModel", "bytes_per_token", "families", "known_models"]

_PAGE = (210, 297)
"""The shape that "the largest page" means: A4, upright."""
_FLOAT32 = 4


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One model, as far as its config says.

    Attributes:
        local: whether its weights are on this machine.
        dtype: that it would be loaded in here.
        bytes_per_token: of one visual token in the store, exact codec.
        page_pixels, page_tokens: width and height at which an A4 page is drawn within the pixel budget, and the
            visual tokens that it takes.
        problem: why it can't be served, or None; the fields above are then None too.
    """

    name: str
    family: str | None
    local: bool
    dtype: str | None = None
    bytes_per_token: int | None = None
    page_pixels: tuple[int, int] | None = None
    page_tokens: int | None = None
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return asdict(self)


def families() -> dict[str, str]:
    """`model_type` of every family that is served, and the family's name."""
    return {kind: family_of_type(kind).name for kind in model_types()}


def known_models(chosen: str) -> list[KnownModel]:
    """The bundled model, the chosen one, and those in the hub's cache of a type that is served."""
    names = dict.fromkeys([BUNDLED, chosen, *_cached()])
    return [describe(name) for name in names]


def describe(name: str) -> KnownModel:
    """One model by name; never uses the network."""
    try:
        located = locate(name, offline=True)
    except ModelError as error:
        return KnownModel(name, None, local=False, problem=error.message)
    try:
        config = read_model_config(located)
        family = family_for(config)
        processor = image_processor_of(located)
    except ModelError as error:
        return KnownModel(name, None, local=True, problem=error.message)
    return _described(name, located, config, family.sketch(config, processor))


def bytes_per_token(config: Any, family: Family, itemsize: int) -> int:
    """Bytes of one visual token in the store: 2·L·H_kv·d keys and values, L norms in float32, embedding, extras."""
    g = Geometry.of(config.get_text_config())
    wide = 2 * g.layers * g.kv_heads * g.head_dim + g.hidden + family.extra_width
    return wide * itemsize + g.layers * _FLOAT32


def _described(name: str, located: Located, config: Any, family: Family) -> KnownModel:
    dtype = planned_dtype(located, config)
    pixels = family.fit(*_PAGE)
    return KnownModel(
        name,
        family.name,
        local=True,
        dtype=str(dtype).removeprefix("torch."),
        bytes_per_token=bytes_per_token(config, family, dtype.itemsize),
        page_pixels=pixels,
        page_tokens=family.tokens(*pixels),
    )


def _cached() -> Iterator[str]:
    """Names of served models in the hub's cache."""
    from huggingface_hub import CacheNotFound, scan_cache_dir

    try:
        cache = scan_cache_dir()
    except CacheNotFound:
        return
    for repo in sorted(cache.repos, key=lambda one: one.repo_id):
        if repo.repo_type == "model" and any(_served(revision.snapshot_path) for revision in repo.revisions):
            yield repo.repo_id


def _served(folder: Path) -> bool:
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("model_type") in model_types()
