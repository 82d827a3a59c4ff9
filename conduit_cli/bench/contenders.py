"""Which policies are compared, at which ratios, under which settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conduit_cli import policies
from conduit_cli.errors import UsageError

__all__ = ["PRESETS", "REFERENCE", "Cell", "Contender", "cells", "parse_policies", "parse_ratios"]

REFERENCE = "full"
_FIXED = {"full": 1.0, "reuse": 0.0}

PRESETS = {
    "ablations": (
        "conduit",
        "conduit:norm=false",
        "conduit:norm=false,lambda=0",
        "conduit:lambda=0",
        "conduit:lambda=0.25",
        "conduit:lambda=0.5",
        "conduit:lambda=0.75",
        "conduit:coefficient=score",
        "conduit:layers=0-{third}",
        "conduit:layers={middle}-{last}",
        "conduit:layers={last}",
        "conduit:between=false",
        "conduit:span=4",
    ),
}
"""Named lists; `{last}`, `{middle}` and `{third}` stand for layers of the model at hand."""


@dataclass(frozen=True)
class Contender:
    """A policy under certain settings; `label` is how it was typed."""

    label: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """A contender at a ratio: one row of the results."""

    contender: Contender
    ratio: float

    @property
    def key(self) -> str:
        """Label and ratio, unique among the cells of a run."""
        return f"{self.contender.label}@{self.ratio:g}"


def parse_policies(texts: Sequence[str]) -> list[Contender]:
    """Contenders from `a,b,c` or `a:option=value,option=value;b`; a list may be given in several texts.

    Raises:
        UsageError: there is no such policy, it has no such option, or none was named.
    """
    found: dict[str, Contender] = {}
    for part in (part.strip() for text in texts for part in text.split(";")):
        for contender in [_with_options(part)] if ":" in part else [Contender(n, n) for n in _names(part)]:
            policies.check(contender.name)
            found.setdefault(contender.label, contender)
    if not found:
        raise UsageError("no policy was named", f"choose from: {', '.join(policies.names())}")
    return list(found.values())


def parse_ratios(text: str) -> list[float]:
    """Ratios from `0,0.05,0.1`.

    Raises:
        UsageError: one is no number from 0 to 1.
    """
    ratios = []
    for part in text.split(","):
        try:
            ratio = float(part)
        except ValueError:
            ratio = -1.0
        if not 0 <= ratio <= 1:
            raise UsageError(f"{part.strip()!r} is no ratio from 0 to 1", "try: --ratios 0,0.05,0.1,0.2,1")
        ratios.append(ratio)
    return sorted(set(ratios))


def cells(contenders: Iterable[Contender], ratios: Sequence[float]) -> list[Cell]:
    """Every contender at every ratio, those without a budget once; the reference is always among them."""
    chosen = list(contenders)
    if all(c.name != REFERENCE for c in chosen):
        chosen.append(Contender(REFERENCE, REFERENCE))
    return [
        Cell(contender, ratio)
        for contender in chosen
        for ratio in ([_FIXED[contender.name]] if contender.name in _FIXED else ratios)
    ]


def _names(part: str) -> list[str]:
    return [name.strip() for name in part.split(",") if name.strip()]


def _with_options(part: str) -> Contender:
    """`name:a=1,b=x`; a piece without `=` belongs to the value before it (`layers=0-3,8`)."""
    name, _, rest = part.partition(":")
    pairs: list[str] = []
    for piece in rest.split(","):
        if "=" in piece or not pairs:
            pairs.append(piece)
        else:
            pairs[-1] += f",{piece}"
    options: dict[str, Any] = {}
    for pair in pairs:
        option, sign, value = pair.partition("=")
        if not sign or not option.strip():
            raise UsageError(f"{part!r} is no policy with options", "write it as conduit:lambda=0.5,norm=false")
        options[option.strip()] = policies.value_of(value.strip())
    return Contender(part.strip(), name.strip(), options)
