"""Sizes and ages as people write them."""

from __future__ import annotations

import re

from conduit_cli.errors import UsageError

__all__ = ["counted", "parse_age", "parse_size"]

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def counted(number: int, thing: str) -> str:
    """`1 page`, `2 pages`; the plural only takes an s."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def parse_size(text: str | None) -> int | None:
    """Bytes of `500M`, `20G`, `1.5T` or a plain number; None stays None.

    Raises:
        UsageError: anything else.
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise UsageError(f"{text!r} is no size", "write it like 500M or 20G")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def parse_age(text: str | None) -> float | None:
    """Seconds of `30d`, `12h`, `2w`; None stays None.

    Raises:
        UsageError: anything else.
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no age", "write it like 30d or 12h")
    return float(match[1]) * _SECONDS[match[2]]
