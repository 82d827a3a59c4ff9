"""A store that can't be written, and pages that can't be drawn: the answer is given, and the trouble told once."""

from __future__ import annotations

from pathlib import Path

import pytest

from conduit_cli import AskOptions, Session
from conduit_cli.documents import PageError
from conduit_store import Store, StoreFull, StoreReadOnly
from tests.documents.faults import FAULTS
from tests.session.conftest import Ear, MakePdf, request


@pytest.mark.parametrize("trouble", [StoreFull("the disk is full"), StoreReadOnly("it can only be read")])
def test_what_cannot_be_stored_is_answered_all_the_same(
    session: Session, store: Store, pdf: MakePdf, ear: Ear, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    path = pdf([["Total: 4711"], ["Total: 93"]])

    def refuse(*_args: object) -> None:
        raise trouble

    monkeypatch.setattr(store, "write", refuse)
    answer = session.ask(request(path), "What is the total on page 2?", AskOptions(ratio=0.5))
    assert answer.tokens.refreshed == 96
    assert [note for note in ear.notes if "without storing" in note] == [f"{trouble}; answering without storing"]
    assert session.ingest(request(path)).count("unstored") == 2
    assert store.entries() == []


def _with_a_bad_page(folder: Path) -> Path:
    fault = next(fault for fault in FAULTS if "middle that contains itself" in fault.name)
    path = folder / "bad.pdf"
    path.write_bytes(fault.make())
    return path


def test_a_page_that_fails_keeps_its_number_and_spares_the_others(session: Session, tmp_path: Path) -> None:
    report = session.ingest(request(_with_a_bad_page(tmp_path)))
    bad = [page.page for page in report.pages if page.status == "failed"]
    assert [page.page for page in report.pages] == list(range(1, len(report.pages) + 1))
    assert len(bad) == 1
    assert 1 < bad[0] < len(report.pages)
    assert report.count("stored") + report.count("present") == len(report.pages) - 1


def test_strict_stops_at_the_page_that_fails(session: Session, tmp_path: Path) -> None:
    with pytest.raises(PageError):
        session.ingest(request(_with_a_bad_page(tmp_path)), strict=True)


def test_a_failing_page_is_left_out_of_an_answer_and_named(session: Session, tmp_path: Path, ear: Ear) -> None:
    answer = session.ask(request(_with_a_bad_page(tmp_path)), "What is the total?", AskOptions())
    numbers = [page.page for page in answer.pages]
    assert numbers[0] == 1
    assert numbers != list(range(1, len(numbers) + 1))
    assert any("left out" in note for note in ear.notes)


def test_a_page_that_made_room_for_another_is_not_told_as_stored(session: Session, store: Store, pdf: MakePdf) -> None:
    path = pdf([["Total: 1"], ["Total: 2"], ["Total: 3"]])
    session.ingest(request(path, "1"))
    store.max_size = int(2.5 * store.entries()[0].nbytes)
    report = session.ingest(request(path))
    assert [page.status for page in report.pages].count("unstored") == 1
    assert len(store.entries()) == 2
    held = {entry.key for entry in store.entries()}
    assert all((page.key in held) == (page.status != "unstored") for page in report.pages)
