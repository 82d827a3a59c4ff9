"""Names for documents that are shown together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

__all__ = ["labels"]


def labels(documents: Sequence[tuple[Path, str]]) -> list[str]:
    """The names for display of documents (path, name); where two files share one, with their folders.

    Of its folders, a label has the last ones, as many as it takes to tell it from the others.
    """
    files = [(Path(os.path.abspath(path)), name) for path, name in documents]

    def label(path: Path, name: str) -> str:
        others = {other.parent.parts for other, same in files if same == name and other != path}
        folders, depth = path.parent.parts, 0
        while depth < len(folders) and any(_last(other, depth) == _last(folders, depth) for other in others):
            depth += 1
        shown = "/".join([*map(_printable, _last(folders, depth)), name])
        return shown.replace("//", "/")  # the root is a slash itself

    return [label(path, name) for path, name in files]


def _last(parts: tuple[str, ...], count: int) -> tuple[str, ...]:
    return parts[max(0, len(parts) - count) :]


def _printable(part: str) -> str:
    told = part.encode("utf-8", "replace").decode("utf-8")
    return "".join(sign if sign.isprintable() else " " for sign in told)
