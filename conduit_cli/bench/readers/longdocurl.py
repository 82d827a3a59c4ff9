"""LongDocURL: one JSON line a question; PDFs are named by their number.

Fields used: question_id, doc_no, question, answer (text, number or list), evidence_pages (from 1), start_end_idx
(first and last page of the window, from 0), question_type. A document is looked for as `<doc_no>.pdf`, then as
`<first four digits>/<doc_no>.pdf`, which is how its archives unpack.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conduit_cli.bench.question import Question
from conduit_cli.bench.readers import read_lines

__all__ = ["read"]


def read(path: Path, documents: Path | None) -> list[Question]:
    """The questions of a LongDocURL.jsonl."""
    return [_question(record, documents or path.parent / "pdfs") for record in read_lines(path)]


def _question(record: dict[str, Any], folder: Path) -> Question:
    number = str(record["doc_no"])
    document = folder / f"{number}.pdf"
    if not document.is_file() and (folder / number[:4] / f"{number}.pdf").is_file():
        document = folder / number[:4] / f"{number}.pdf"
    window = record.get("start_end_idx")
    answer = record["answer"]
    return Question(
        name=str(record["question_id"]),
        documents=(document,),
        question=record["question"],
        answers=(", ".join(map(str, answer)),) if isinstance(answer, list) else (str(answer),),
        answer_pages=tuple(record.get("evidence_pages") or ()),
        pages=f"{window[0] + 1}-{window[1] + 1}" if window else None,
        kind=str(record.get("question_type", "")),
    )
