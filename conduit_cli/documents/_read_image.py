"""Pictures to RGB pixels with Pillow. Runs in the rendering child only."""

from __future__ import annotations

from contextlib import suppress

from PIL import Image, ImageOps, UnidentifiedImageError

from conduit_cli.documents._wire import Refusal

__all__ = ["ImageReader"]


class ImageReader:
    """One open picture file: a TIFF has as many pages as frames, all else has one.

    Raises Refusal: `format` (no decoder here), `pixels` (too large by its header) or `damaged`.
    """

    def __init__(self, path: str, kind: str, max_pixels: int) -> None:
        Image.MAX_IMAGE_PIXELS = None  # checked here, frame by frame, with a sentence of our own
        Image.init()
        if kind == "HEIF":
            with suppress(ImportError):
                import pillow_heif  # type: ignore[import-not-found, unused-ignore]

                pillow_heif.register_heif_opener()
        if kind not in Image.OPEN:
            raise Refusal("format", kind)
        self._max_pixels = max_pixels
        self._image = _open(path, kind)
        self._check_size()
        frames = int(getattr(self._image, "n_frames", 1))
        self.pages = frames if kind == "TIFF" else 1
        self.notes: list[str] = []
        if frames > 1 and kind in ("GIF", "PNG", "WEBP", "AVIF"):
            self.notes.append(f"animated: only the first of {frames} frames is read")

    def size(self, number: int) -> tuple[float, float]:
        """Width and height in pixels, before any rotation that the file asks for."""
        self._seek(number)
        return self._image.size

    def render(self, number: int, width: int, height: int) -> tuple[int, int, memoryview, list[str]]:
        """The frame at its own size, upright, on white; `width` and `height` are not used."""
        self._seek(number)
        self._image.load()
        upright, notes = _upright(self._image)
        rgb = flatten(upright, notes)
        return rgb.width, rgb.height, memoryview(rgb.tobytes()), notes

    def _seek(self, number: int) -> None:
        if self._image.tell() != number:
            self._image.seek(number)
        self._check_size()

    def _check_size(self) -> None:
        width, height = self._image.size
        if width < 1 or height < 1:
            raise Refusal("damaged", f"its size is {width} x {height}")
        if width * height > self._max_pixels:
            raise Refusal("pixels", f"{width} x {height}")


def _open(path: str, kind: str) -> Image.Image:
    try:
        return Image.open(path, formats=(kind,))
    except UnidentifiedImageError as error:
        raise Refusal("damaged", "its header makes no sense") from error


def _upright(image: Image.Image) -> tuple[Image.Image, list[str]]:
    """The picture turned as its EXIF orientation says; unreadable EXIF counts as none."""
    try:
        return ImageOps.exif_transpose(image), []
    except Exception:
        return image, ["its EXIF data is damaged: shown as stored"]


def flatten(image: Image.Image, notes: list[str]) -> Image.Image:
    """Any mode to RGB: deep grey scaled to 8 bits, transparent pixels on white."""
    if image.mode.startswith("I") or image.mode == "F":
        return _scaled_to_bytes(image, notes).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGB", image.size, "white")
        white.paste(image, mask=image.getchannel("A"))
        return white
    return image.convert("RGB")


def _scaled_to_bytes(image: Image.Image, notes: list[str]) -> Image.Image:
    """Deep grey to 8 bits: by the mode's own range where it has one, else by the values' range."""
    low, high = (float(v) for v in image.getextrema())  # type: ignore[arg-type]
    if image.mode.startswith("I") and low >= 0 and high <= 65535:
        low, high = 0.0, 65535.0
    elif image.mode == "F" and low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    else:
        notes.append("its values have no fixed range: darkest shown black, brightest white")
    gain = 255.0 / (high - low) if high > low else 0.0
    wide = image if image.mode == "F" else image.convert("I").convert("F")
    return wide.point(lambda value: value * gain + (0.5 - low * gain)).convert("L")
