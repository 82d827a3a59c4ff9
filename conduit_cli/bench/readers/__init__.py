"""Question sets in their own layouts: one module each, found by the name that `--format` takes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from conduit_cli.bench.question import Question, read_questions
from conduit_cli.errors import InputError, UsageError

__all__ = ["FORMATS", "read_json", "read_lines", "read_set"]

FORMATS = ("conduit", "mmlongbench-doc", "longdocurl", "slidevqa", "docvqa")


def read_set(path: Path, layout: str, documents: Path | None = None) -> list[Question]:
    """The questions of a file in one of `FORMATS`.

    Args:
        documents: the folder of the documents; None takes the layout's usual place beside the file.

    Raises:
        UsageError: there is no such layout.
        InputError: the file can't be read, is of another layout, or holds no question.
    """
    if layout not in FORMATS:
        raise UsageError(f"there is no format {layout!r}", f"choose one of: {', '.join(FORMATS)}")
    questions = read_questions(path) if layout == "conduit" else _read_public(path, layout, documents)
    if not questions:
        raise InputError(f"there is no question in {path}")
    twice = [name for name, count in Counter(question.name for question in questions).items() if count > 1]
    if twice:
        raise InputError(f"two questions of {path} have the id {twice[0]!r}")
    return questions


def _read_public(path: Path, layout: str, documents: Path | None) -> list[Question]:
    module = import_module(f"{__name__}.{layout.replace('-', '_')}")
    reader: Callable[[Path, Path | None], list[Question]] = module.read
    try:
        return reader(path, documents)
    except (KeyError, TypeError, AttributeError, ValueError, SyntaxError) as error:
        raise InputError(f"{path} is not of the layout {layout}: {type(error).__name__} {error}") from error


def read_json(path: Path) -> Any:
    """A JSON document.

    Raises:
        InputError: the file can't be read or is none.
    """
    try:
        return json.loads(_text(path))
    except ValueError as error:
        raise InputError(f"{path} is no JSON: {error}") from error


def read_lines(path: Path) -> list[Any]:
    """The records of a file of JSON lines; of a JSON list, too.

    Raises:
        InputError: the file can't be read or is neither.
    """
    text = _text(path)
    try:
        if text.lstrip().startswith("["):
            found: list[Any] = json.loads(text)
            return found
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except ValueError as error:
        raise InputError(f"{path} is neither JSON lines nor a JSON list: {error}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputError(f"{path} can't be read: {getattr(error, 'strerror', None) or error}") from error
