"""MMLongBench-Doc: `data/samples.json`, one list; PDFs in `data/documents/`.

Fields used: doc_id (file name), question, answer, evidence_pages (a list written as text, pages from 1),
evidence_sources, answer_format ("None" marks an unanswerable question).
"""

from __future__ import annotations

import ast
from pathlib import Path

from conduit_cli.bench.question import Question
from conduit_cli.bench.readers import read_json

__all__ = ["read"]


def read(path: Path, documents: Path | None) -> list[Question]:
    """The questions of a samples.json."""
    folder = documents or path.parent / "documents"
    questions = []
    for number, record in enumerate(read_json(path), 1):
        pages = record["evidence_pages"]
        sources = record.get("evidence_sources") or "[]"
        questions.append(
            Question(
                name=str(number),
                documents=(folder / record["doc_id"],),
                question=record["question"],
                answers=(str(record["answer"]),),
                answer_pages=tuple(ast.literal_eval(pages) if isinstance(pages, str) else pages),
                kind="; ".join(ast.literal_eval(sources) if isinstance(sources, str) else sources),
            )
        )
    return questions
