"""DocVQA (single page): `{split}_v1.0.json` with a list under `data`; pictures in `documents/`.

Fields used: questionId, question, image (a path such as documents/xyz_1.png), answers (absent in the test split),
question_types.
"""

from __future__ import annotations

from pathlib import Path

from conduit_cli.bench.question import Question
from conduit_cli.bench.readers import read_json

__all__ = ["read"]


def read(path: Path, documents: Path | None) -> list[Question]:
    """The questions of one split's file."""
    return [
        Question(
            name=str(record["questionId"]),
            documents=((documents / Path(record["image"]).name) if documents else path.parent / record["image"],),
            question=record["question"],
            answers=tuple(record.get("answers") or ()),
            answer_pages=(1,),
            kind="; ".join(record.get("question_types") or ()),
        )
        for record in read_json(path)["data"]
    ]
