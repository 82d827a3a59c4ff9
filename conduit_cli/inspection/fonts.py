"""The typeface of captions, and the lines that they break into."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from PIL import ImageFont

__all__ = ["Font", "font", "wrapped"]

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


@cache
def font(size: int, *, bold: bool = False) -> Font:
    """DejaVu Sans, which ships with matplotlib and knows Latin, Greek, Cyrillic and mathematical signs.

    Matplotlib itself is not imported: that would make a folder in the user's home. Without it, Pillow's own font.
    """
    spec = find_spec("matplotlib")
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder) / "mpl-data" / "fonts" / "ttf" / name
        if file.is_file():
            return ImageFont.truetype(str(file), size)
    return ImageFont.load_default(size)


def wrapped(text: str, face: Font, width: int, most: int) -> list[str]:
    """Text as at most `most` lines of `width` pixels; what is too long ends in an ellipsis."""
    lines: list[str] = []
    words = text.split()
    while words and len(lines) < most:
        line = words.pop(0)
        while face.getlength(line) > width and len(line) > 1:  # one word longer than a line
            cut = _fitting(line, face, width)
            words.insert(0, line[cut:])
            line = line[:cut]
        while words and face.getlength(f"{line} {words[0]}") <= width:
            line = f"{line} {words.pop(0)}"
        lines.append(line)
    if words:
        last = lines[-1]
        while last and face.getlength(f"{last}…") > width:
            last = last[:-1]
        lines[-1] = f"{last}…"
    return lines


def _fitting(word: str, face: Font, width: int) -> int:
    """How many of a word's first characters fit, at least one."""
    low, high = 1, len(word)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if face.getlength(word[:middle]) <= width else (low, middle - 1)
    return low
