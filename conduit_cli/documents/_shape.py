"""White padding for shapes that no vision tower takes, and the look of a finished page."""

from __future__ import annotations

import math
from typing import Any

from PIL import Image

from conduit_cli.documents._limits import MAX_ASPECT, MIN_SIDE
from conduit_cli.documents._wire import Refusal

__all__ = ["PADDED", "on_white", "pad", "padded_size", "solid_colour"]

PADDED = "padded with white: too narrow for a model's patches as it is"


def padded_size(width: float, height: float) -> tuple[float, float]:
    """A page's size with the shorter side raised to 1/MAX_ASPECT of the longer. Raises Refusal."""
    if not (math.isfinite(width) and math.isfinite(height) and width > 0 and height > 0):
        raise Refusal("damaged", f"its size is {width:g} x {height:g}")
    return max(width, height / MAX_ASPECT), max(height, width / MAX_ASPECT)


def pad(image: Image.Image) -> tuple[Image.Image, list[str]]:
    """The image with every side at least MIN_SIDE and an aspect of at most MAX_ASPECT; a note if padded."""
    width = max(image.width, MIN_SIDE, math.ceil(image.height / MAX_ASPECT))
    height = max(image.height, MIN_SIDE, math.ceil(image.width / MAX_ASPECT))
    if (width, height) == image.size:
        return image, []
    return on_white(image, width, height), [PADDED]


def on_white(image: Image.Image, width: int, height: int) -> Image.Image:
    """The image at the top left of a white one of the given size."""
    if image.size == (width, height):
        return image
    canvas = Image.new("RGB", (width, height), "white")
    canvas.paste(image, (0, 0))
    return canvas


def solid_colour(image: Image.Image) -> str | None:
    """The name of the one colour of `image`, or None if it has more."""
    extrema = image.getextrema()
    colour = tuple(low for low, _ in extrema)  # type: ignore[misc]
    if any(low != high for low, high in extrema):  # type: ignore[misc]
        return None
    names: dict[tuple[Any, ...], str] = {(255, 255, 255): "white", (0, 0, 0): "black"}
    return names.get(colour, "#{:02x}{:02x}{:02x}".format(*colour))
