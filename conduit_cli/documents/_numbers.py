"""Page numbers as people write them: `1-4,7`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from conduit_cli.errors import UsageError

__all__ = ["format_pages", "parse_pages"]

_PART = re.compile(r"(\d*)\s*(?:(-|–)\s*(\d*))?", re.ASCII)
_HINT = "Write page numbers and ranges, for example --pages 1-4,7 (7- means from page 7 on)."


def parse_pages(text: str | None, count: int) -> list[int]:
    """The page numbers that `text` names, ascending, each once, in a document of `count` pages.

    `1-4,7`, `-3` (the first three), `7-` (from 7 on); None means all. Raises UsageError for
    anything else, for page 0, for a range that runs backwards and for a page beyond the end.
    """
    if text is None:
        return list(range(1, count + 1))
    chosen: set[int] = set()
    for part in text.split(","):
        first, last = _bounds(part.strip(), text, count)
        if last > count:
            have = "1 page" if count == 1 else f"{count} pages"
            raise UsageError(
                f"Page {last} was asked for, but the document has {have}.",
                f"Use --pages with numbers from 1 to {count}.",
            )
        chosen.update(range(first, last + 1))
    return sorted(chosen)


def _bounds(part: str, text: str, count: int) -> tuple[int, int]:
    match = _PART.fullmatch(part)
    if match is None or not (match[1] or match[3]) or len(part) > 20:
        raise UsageError(f"The page range {text[:60]!r} makes no sense.", _HINT)
    first = int(match[1] or 1)
    last = first if match[2] is None else int(match[3] or max(count, first))
    if first == 0 or last == 0:
        raise UsageError("Page 0 was asked for, but pages are numbered from 1.", _HINT)
    if last < first:
        raise UsageError(f"The page range {part!r} runs backwards.", f"Write {last}-{first} instead.")
    return first, last


def format_pages(numbers: Iterable[int]) -> str:
    """The inverse of `parse_pages`: [1, 2, 3, 7] gives `1-3,7`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
