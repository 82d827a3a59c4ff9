"""What an entry is a function of, and the 256-bit key made from it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import TypeAlias

__all__ = ["FORMAT", "JSON", "canonical_json", "describe_difference", "entry_key", "is_key"]

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

# Part of every key: raising it makes every older entry a miss, never a wrong hit.
FORMAT = 1

_KEY = re.compile(r"[0-9a-f]{64}\Z")


def canonical_json(value: object) -> str:
    """The one text for a JSON value: sorted keys, no spaces, ASCII, no NaN.

    Raises:
        TypeError: a dictionary key is not a string, or a value is not JSON.
        ValueError: a number is NaN or infinite.
    """
    _refuse_odd_keys(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def entry_key(identity: Mapping[str, JSON]) -> str:
    """The key of the entry with this identity: SHA-256 of its canonical JSON, 64 hex digits, never cut.

    A field that does not apply must be present as None, so that "absent" and "not asked" can't meet.
    The store's format version is mixed in.
    """
    text = canonical_json({"format": FORMAT, "identity": dict(identity)})
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def is_key(text: str) -> bool:
    """Whether `text` has the shape of an entry key (64 lower-case hex digits)."""
    return _KEY.match(text) is not None


def describe_difference(asked: Mapping[str, JSON], found: Mapping[str, JSON]) -> str:
    """Both sides of the first fields in which two identities differ, for an error message."""
    parts = []
    for name in sorted(set(asked) | set(found)):
        left, right = asked.get(name, "(no such field)"), found.get(name, "(no such field)")
        if canonical_json(left) != canonical_json(right):
            parts.append(f"{name}: asked {_short(left)}, found {_short(right)}")
    return "; ".join(parts[:3]) or "no field differs"


def _short(value: JSON) -> str:
    text = canonical_json(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _refuse_odd_keys(value: object) -> None:
    """json.dumps turns 1 and None into strings as dictionary keys: two identities could then share a text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"identity field names must be strings, not {type(key).__name__}")
            _refuse_odd_keys(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _refuse_odd_keys(inner)
