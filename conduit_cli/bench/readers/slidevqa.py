"""SlideVQA: one JSON line a question; every slide of a deck is a picture.

Fields used: qa_id, deck_name, image_urls (one a slide, in order), question, answer, evidence_pages (from 1),
reasoning_type. Slides lie in `images/<deck_name>/`, or in a split's folder `images/{train,dev,test}/<deck_name>/`,
under the file name that ends their address.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlparse

from conduit_cli.bench.question import Question
from conduit_cli.bench.readers import read_lines

__all__ = ["read"]


def read(path: Path, documents: Path | None) -> list[Question]:
    """The questions of one split's file."""
    folder = documents or path.parent / "images"
    return [_question(record, folder, path.stem) for record in read_lines(path)]


def _question(record: dict[str, Any], folder: Path, split: str) -> Question:
    deck = folder / record["deck_name"]
    if not deck.is_dir() and (folder / split / record["deck_name"]).is_dir():
        deck = folder / split / record["deck_name"]
    names = [unquote(PurePosixPath(urlparse(url).path).name) for url in record["image_urls"]]
    return Question(
        name=str(record["qa_id"]),
        documents=tuple(deck / name for name in names),
        question=record["question"],
        answers=(str(record["answer"]),),
        answer_pages=tuple(record.get("evidence_pages") or ()),
        kind=str(record.get("reasoning_type", "")),
        labels=True,
    )
