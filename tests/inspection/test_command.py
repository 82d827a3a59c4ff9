"""`conduit inspect`: what it writes, and what it refuses before any work."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tests.cli.conftest import Conduit
from tests.inspection.conftest import QUESTION


def test_table_maps_and_answers(conduit: Conduit, samples: Path) -> None:
    ran = conduit("inspect", samples / "report.pdf", QUESTION, "--pages", "1-3", "--compare", "--versus", "value-norm")
    assert ran.code == 0
    assert "\x1b" not in ran.out + ran.err
    lines = ran.out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert [line.split()[1] for line in lines if line.startswith("report.pdf")] == ["1", "2", "3"]
    assert any(line.startswith("overlap with value-norm: ") for line in lines)
    assert [line.partition(":")[0] for line in lines[-4:]] == ["value-norm", "full", "reuse", "answer"]


def test_two_documents_of_one_name_are_told_apart(conduit: Conduit, samples: Path, tmp_path: Path) -> None:
    for folder in ("2024", "2025"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.pdf").write_bytes((samples / "invoice.pdf").read_bytes())
    page = tmp_path / "page.html"
    words = (tmp_path / "2024" / "same.pdf", "What is the total?", "--with", tmp_path / "2025" / "same.pdf")
    ran = conduit("inspect", *words, "--html", page)
    assert ran.code == 0
    assert {line.split()[0] for line in ran.out.splitlines()[1:3]} == {"2024/same.pdf", "2025/same.pdf"}
    assert "page 1 of 2025/same.pdf" in page.read_text()


def test_pictures_and_page_are_written_in_one_go(conduit: Conduit, samples: Path, tmp_path: Path) -> None:
    folder, page = tmp_path / "new" / "pictures", tmp_path / "page.html"
    page.write_text("old")
    ran = conduit("inspect", samples / "report.pdf", QUESTION, "--pages", "1-2", "--png", folder, "--html", page)
    assert ran.code == 0
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["01-report-page-1.png", "02-report-page-2.png"]
    for name in names:
        with Image.open(folder / name) as picture:
            assert picture.format == "PNG"
            assert picture.width > 1000
    assert page.read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "page.html"]


def test_a_document_never_seen_is_ingested_first(conduit: Conduit, samples: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ran = conduit("inspect", samples / "invoice.pdf", "What is the tax?", "--store", store)
    assert ran.code == 0
    assert "stored" in ran.err


@pytest.mark.parametrize(
    ("option", "target"),
    [
        ("--html", "."),
        ("--html", "missing/page.html"),
        ("--html", "file.txt/page.html"),
        ("--html", "/proc/page.html"),
        ("--html", "/dev/null"),
        ("--html", "x" * 300),
        ("--png", "file.txt"),
        ("--png", "file.txt/inside"),
        ("--png", "/proc/pictures"),
    ],
)
def test_an_unwritable_target_is_refused_before_any_work(
    conduit: Conduit, samples: Path, tmp_path: Path, option: str, target: str
) -> None:
    (tmp_path / "file.txt").write_text("mine")
    store = tmp_path / "store"
    ran = conduit("inspect", samples / "report.pdf", QUESTION, "--store", store, option, tmp_path / target)
    assert ran.code == 2
    assert ran.err.startswith("error: ")
    assert len(ran.err.splitlines()) == 2
    assert not store.exists()
    assert (tmp_path / "file.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_the_document_itself_is_never_replaced(conduit: Conduit, samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.pdf"
    path.write_bytes((samples / "report.pdf").read_bytes())
    (tmp_path / "link.html").symlink_to(path)
    for target in ("report.pdf", "link.html"):
        ran = conduit("inspect", path, QUESTION, "--html", tmp_path / target)
        assert ran.code == 2
        assert "itself" in ran.err
    assert path.read_bytes() == (samples / "report.pdf").read_bytes()


def test_an_unknown_second_policy_is_refused(conduit: Conduit, samples: Path, tmp_path: Path) -> None:
    ran = conduit("inspect", samples / "report.pdf", QUESTION, "--versus", "best", "--store", tmp_path / "store")
    assert ran.code == 2
    assert "'best'" in ran.err
    assert not (tmp_path / "store").exists()


def test_no_question_is_refused(conduit: Conduit, samples: Path, tmp_path: Path) -> None:
    assert conduit("inspect", samples / "report.pdf", " ", "--html", tmp_path / "a.html").code == 2
    assert list(tmp_path.iterdir()) == []
