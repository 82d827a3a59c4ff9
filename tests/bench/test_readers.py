"""Question files: our own lines, and public sets in their own layouts (hand-made files)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conduit_cli.bench.readers import FORMATS, read_set
from conduit_cli.errors import InputError, UsageError
from tests.bench.conftest import MakeSet


def _write(path: Path, value: Any, *, lines: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(one) + "\n" for one in value) if lines else json.dumps(value, indent=1)
    path.write_text(text)
    return path


def test_the_samples_load(samples: Path) -> None:
    found = read_set(samples / "questions.jsonl", "conduit")
    assert len(found) == 21
    assert found[0].documents == (samples / "report.pdf",)
    assert (found[0].answers, found[0].answer_pages, found[0].pages) == (("Larsen",), (1,), None)


def test_every_field_of_a_line(make_set: MakeSet, tmp_path: Path) -> None:
    path = make_set(
        {
            "id": "q7",
            "documents": ["a.pdf"],
            "question": "Total?",
            "answers": ["1", "one"],
            "page": [2, 3],
            "pages": "2-4",
            "kind": ["label", "named"],
            "system": "Be brief.",
            "instruction": "Look.",
            "question_first": True,
            "labels": False,
        }
    )
    [question] = read_set(path, "conduit")
    assert question.name == "q7"
    assert question.documents == (tmp_path / "a.pdf",)
    assert (question.answers, question.answer_pages, question.pages) == (("1", "one"), (2, 3), "2-4")
    assert (question.kind, question.system, question.labels) == ("label; named", "Be brief.", False)
    assert question.opening == "Look.\nQuestion: Total?\n"


@pytest.mark.parametrize(
    "wrong", [{"system": 5}, {"instruction": ["a"]}, {"labels": "no"}, {"question_first": "false"}, {"question": None}]
)
def test_a_field_of_another_type_is_refused(make_set: MakeSet, wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match="line 1"):
        read_set(make_set({"document": "a.pdf", "question": "Total?", **wrong}), "conduit")


def test_line_breaks_that_json_allows_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text('\ufeff{"document": "a.pdf", "question": "a\u2028b\u0085c"}\n', "utf-8")
    [question] = read_set(path, "conduit")
    assert question.question == "a\u2028b\u0085c"


def test_mmlongbench_doc(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "data" / "samples.json",
        [
            {
                "doc_id": "report 2020.pdf",
                "doc_type": "Report",
                "question": "How many?",
                "answer": "12",
                "evidence_pages": "[5, 9]",
                "evidence_sources": "['Chart', 'Table']",
                "answer_format": "Int",
            },
            {
                "doc_id": "b.pdf",
                "doc_type": "Guide",
                "question": "Who?",
                "answer": "Not answerable",
                "evidence_pages": "[]",
                "evidence_sources": "[]",
                "answer_format": "None",
            },
        ],
    )
    first, second = read_set(path, "mmlongbench-doc")
    assert first.documents == (tmp_path / "data" / "documents" / "report 2020.pdf",)
    assert (first.answers, first.answer_pages, first.kind) == (("12",), (5, 9), "Chart; Table")
    assert (second.answers, second.answer_pages) == (("Not answerable",), ())


def test_longdocurl(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "LongDocURL.jsonl",
        [
            {
                "question_id": "free_1",
                "doc_no": "4026369",
                "total_pages": 80,
                "start_end_idx": [9, 38],
                "question_type": "extract",
                "question": "Which?",
                "answer": ["Adams", "Baker"],
                "evidence_pages": [17],
                "answer_format": "List",
            },
            {"question_id": "free_2", "doc_no": "4000001", "question": "Count?", "answer": 3, "evidence_pages": []},
        ],
        lines=True,
    )
    nested = tmp_path / "pdfs" / "4026" / "4026369.pdf"
    nested.parent.mkdir(parents=True)
    nested.touch()
    first, second = read_set(path, "longdocurl")
    assert first.documents == (nested,)
    assert (first.pages, first.answers, first.answer_pages) == ("10-39", ("Adams, Baker",), (17,))
    assert second.documents == (tmp_path / "pdfs" / "4000001.pdf",)
    assert (second.pages, second.answers) == (None, ("3",))


def test_slidevqa(tmp_path: Path) -> None:
    addresses = [f"https://image.example.com/deck/95/some-deck-{n}-1024.jpg?cb=1%20" for n in (1, 2)]
    record = {
        "deck_name": "some-deck_95",
        "image_urls": addresses,
        "qa_id": 3,
        "question": "What grew?",
        "answer": "Sales",
        "evidence_pages": [2],
        "reasoning_type": "Single-Hop",
    }
    path = _write(tmp_path / "dev.jsonl", [record], lines=True)
    (tmp_path / "images" / "dev" / "some-deck_95").mkdir(parents=True)
    [question] = read_set(path, "slidevqa")
    assert question.documents == tuple(
        tmp_path / "images" / "dev" / "some-deck_95" / f"some-deck-{n}-1024.jpg" for n in (1, 2)
    )
    assert (question.answers, question.answer_pages, question.labels) == (("Sales",), (2,), True)


def test_docvqa(tmp_path: Path) -> None:
    data = {
        "dataset_name": "SP-DocVQA",
        "dataset_split": "val",
        "data": [
            {
                "questionId": 49153,
                "question": "What is the actual value?",
                "question_types": ["figure/diagram"],
                "image": "documents/pybv0228_81.png",
                "docId": 14465,
                "ucsf_document_id": "pybv0228",
                "ucsf_document_page_no": "81",
                "answers": ["0.28", ".28"],
                "data_split": "val",
            }
        ],
    }
    path = _write(tmp_path / "val_v1.0.json", data)
    [question] = read_set(path, "docvqa")
    assert question.documents == (tmp_path / "documents" / "pybv0228_81.png",)
    assert (question.answers, question.kind, question.answer_pages) == (("0.28", ".28"), "figure/diagram", (1,))
    [moved] = read_set(path, "docvqa", tmp_path / "pictures")
    assert moved.documents == (tmp_path / "pictures" / "pybv0228_81.png",)


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("text", ["", "{", '{"a": 1}\n', "[1, 2]", '"x"'])
def test_a_file_of_another_layout_is_refused(tmp_path: Path, layout: str, text: str) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=r"set\.jsonl"):
        read_set(path, layout)


def test_two_questions_of_one_id_are_refused(make_set: MakeSet) -> None:
    one = {"id": 1, "document": "a.pdf", "question": "Total?"}
    with pytest.raises(InputError, match="'1'"):
        read_set(make_set(one, one), "conduit")


def test_an_unknown_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="docvqa"):
        try:
            read_set(tmp_path / "x", "parquet")
        except UsageError as error:
            raise UsageError(f"{error.message} {error.hint}") from error
