"""One scale from numbers to colours, shared by the terminal, the PNG and the HTML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from conduit_cli.inspection.model import Inspection, Layer

__all__ = ["COLOURS", "OUTLINE", "RGB", "Scale", "ramp", "scale_of"]

RGB = tuple[int, int, int]

_STOPS: tuple[RGB, ...] = ((255, 240, 170), (252, 176, 82), (232, 84, 72), (158, 34, 112), (74, 12, 96))
OUTLINE: RGB = (0, 84, 196)
"""Colour of a refreshed cell's outline: blue, which the heat colours never are."""


@dataclass(frozen=True, slots=True)
class Scale:
    """From a layer's numbers to 0..1.

    Attributes:
        low, high: the numbers at 0 and at 1.
        root: take the square root; attention is so uneven that a few tokens would hide all others.
        cut: some numbers are above `high` and look the same as it.
    """

    low: float
    high: float
    root: bool
    cut: bool = False

    def at(self, value: float) -> float:
        """Where a number lies, 0 to 1."""
        if self.high <= self.low:
            return 0.0
        share = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return share**0.5 if self.root else share

    def number(self, place: float) -> float:
        """The number at a place 0 to 1: for the scale's ticks."""
        return self.low + (self.high - self.low) * (place**2 if self.root else place)


def scale_of(inspection: Inspection, layer: Layer) -> Scale:
    """One scale for all pages, so that their colours may be compared: up to what 99.5 % of tokens stay within.

    It begins at 0. Norms lie close together and far from 0: theirs begins at the smallest. Depth ends at L.
    """
    if layer == "depth":
        return Scale(0.0, float(inspection.layers), root=False)
    values = sorted(inspection.values(layer)) or [0.0]
    high = values[math.ceil(len(values) * 0.995) - 1]
    norm = layer == "value norm"
    return Scale(values[0] if norm else 0.0, high, root=not norm, cut=high < values[-1])


def ramp(stops: Sequence[RGB], entries: int) -> list[RGB]:
    """Colours evenly spaced along `stops`, mixed in OKLab so that equal steps look equal."""
    points = [_to_lab(stop) for stop in stops]
    colours = []
    for entry in range(entries):
        place = entry / (entries - 1) * (len(points) - 1)
        first = min(int(place), len(points) - 2)
        part = place - first
        colours.append(_from_lab([a + (b - a) * part for a, b in zip(points[first], points[first + 1], strict=True)]))
    return colours


# The matrices are Björn Ottosson's (OKLab, 2020), from linear sRGB to cone responses and on to Lab, and back.
_CONES = ((0.4122214708, 0.5363325363, 0.0514459929), (0.2119034982, 0.6806995451, 0.1073969566),
          (0.0883024619, 0.2817188376, 0.6299787005))  # fmt: skip
_LAB = ((0.2104542553, 0.7936177850, -0.0040720468), (1.9779984951, -2.4285922050, 0.4505937099),
        (0.0259040371, 0.7827717662, -0.8086757660))  # fmt: skip
_LAB_BACK = ((1.0, 0.3963377774, 0.2158037573), (1.0, -0.1055613458, -0.0638541728),
             (1.0, -0.0894841775, -1.2914855480))  # fmt: skip
_CONES_BACK = ((4.0767416621, -3.3077115913, 0.2309699292), (-1.2684380046, 2.6097574011, -0.3413193965),
               (-0.0041960863, -0.7034186147, 1.7076147010))  # fmt: skip


def _to_lab(colour: RGB) -> list[float]:
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return _times(_LAB, [cone ** (1 / 3) for cone in _times(_CONES, linear)])


def _from_lab(lab: Sequence[float]) -> RGB:
    linear = _times(_CONES_BACK, [root**3 for root in _times(_LAB_BACK, lab)])
    red, green, blue = (_byte(c) for c in linear)
    return red, green, blue


def _byte(linear: float) -> int:
    shown = 12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055
    return round(255 * min(1.0, max(0.0, shown)))


def _times(matrix: Iterable[Sequence[float]], vector: Sequence[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


COLOURS: list[RGB] = ramp(_STOPS, 256)
"""256 heat colours, light (little) to dark (much): lightness alone tells them apart, too."""
