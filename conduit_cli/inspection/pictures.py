"""Pages as bytes: small ones, and as data URIs."""

from __future__ import annotations

import base64
from io import BytesIO

from PIL import Image

__all__ = ["data_uri", "jpeg", "smallest"]

_FEW_COLOURS = 4096


def smallest(image: Image.Image) -> tuple[bytes, str]:
    """PNG or JPEG; the former is tried where there are few colours, as in print."""
    lossy = jpeg(image, 82)
    # A hasty attempt tells print from a grey scan, on which the thorough one would waste a second.
    if image.getcolors(_FEW_COLOURS) is None or len(_png(image, 1)) > 2 * len(lossy):
        return lossy, "jpeg"
    return min((_png(image, 6), "png"), (lossy, "jpeg"), key=lambda made: len(made[0]))


def _png(image: Image.Image, effort: int) -> bytes:
    file = BytesIO()
    image.save(file, "PNG", compress_level=effort)
    return file.getvalue()


def jpeg(image: Image.Image, quality: int) -> bytes:
    """Lossy, at a quality up to 95."""
    file = BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def data_uri(content: bytes, kind: str) -> str:
    """What an `img` takes in place of an address."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"
