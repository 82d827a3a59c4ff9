"""Reading the settings that several policies have in common."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from conduit_cli.errors import UsageError

__all__ = ["chosen_layers", "fraction", "switch", "whole"]


def fraction(name: str, value: float) -> float:
    """A number from 0 to 1.

    Raises:
        UsageError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UsageError(f"{name} is {value!r}, but goes from 0 to 1", f"try: {name}=1")
    return float(value)


def switch(name: str, value: bool) -> bool:
    """True or false, and nothing that might be taken for either.

    Raises:
        UsageError: it is neither.
    """
    if not isinstance(value, bool):
        raise UsageError(f"{name} is {value!r}, but can be true or false", f"try: {name}=false")
    return value


_MOST = 2**63 - 1


def whole(name: str, value: int | None, least: int = 1) -> int | None:
    """A whole number of 64 bits, or None where the setting is left open.

    Raises:
        UsageError: it is neither.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST):
        raise UsageError(f"{name} is {value!r}, but must be a whole number from {least}", f"try: {name}={least}")
    return value


def chosen_layers(spec: str, per_layer: Tensor) -> Tensor:
    """The layers of [L, ...] that `spec` names: `all`, `upper` (L//2 and above), or numbers such as `0-3,8`.

    Raises:
        UsageError: it is no such list, or the model has no such layer.
    """
    if spec == "all":
        return per_layer
    layers = len(per_layer)
    if spec == "upper":
        return per_layer[layers // 2 :]
    wanted: set[int] = set()
    for part in str(spec).split(","):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part.strip())
        if match is None:
            raise UsageError(
                f"layers is {spec!r}, but must be 'all', 'upper' or numbers such as 0-3,8", "try: layers=all"
            )
        wanted |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    if not wanted or max(wanted) >= layers:
        raise UsageError(f"layers is {spec!r}, but this model has the layers 0-{layers - 1}")
    return per_layer[torch.tensor(sorted(wanted), device=per_layer.device)]
