"""What one document may cost."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MAX_ASPECT", "MAX_RENDER_PIXELS", "MIN_SIDE", "Limits"]

MIN_SIDE = 32
"""Pictures with a shorter side (pixels) are padded with white: no model's patch is larger."""

MAX_ASPECT = 100
"""Pages longer than this many times their width (or the reverse) are padded with white."""

MAX_RENDER_PIXELS = 100_000_000
"""No `fit` may ask for a page of more pixels."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Ceilings of the rendering process.

    Attributes:
        seconds: wall time for opening, and again for each page.
        memory: bytes of address space beyond the process's own at its start; enforced by the
            system where it can (POSIX).
        image_pixels: pixels of a picture, refused by its header before decoding.
    """

    seconds: float = 20.0
    memory: int = 1536 << 20
    image_pixels: int = 100_000_000
