"""The bundled model over a store of the test's own, and documents that the test writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pymupdf
import pytest

from conduit_cli import DocumentRequest, Model, Session, load_model, open_store
from conduit_cli.reports import IngestedPage, Listener
from conduit_store import Store

MakePdf = Callable[..., Path]


class Ear(Listener):
    """Remembers everything that a listener is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.pages: list[IngestedPage] = []
        self.phases: list[str] = []
        self.said = ""

    def page(self, page: IngestedPage, done: int, total: int) -> None:
        self.pages.append(page)

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def text(self, piece: str) -> None:
        self.said += piece


@pytest.fixture(scope="session")
def model() -> Model:
    return load_model("bundled")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def ear() -> Ear:
    return Ear()


@pytest.fixture
def session(model: Model, store: Store, ear: Ear) -> Session:
    store.on_note = ear.note
    return Session(model, store, listener=ear)


@pytest.fixture
def pdf(tmp_path: Path) -> MakePdf:
    """Write a PDF of large print; each page is a list of lines."""

    def make(pages: Sequence[Sequence[str]], name: str = "made.pdf") -> Path:
        document = pymupdf.open()
        for lines in pages:
            page = document.new_page(width=600, height=400)
            for row, line in enumerate(lines):
                page.insert_text((24, 70 + 76 * row), line, fontsize=44, fontname="helv")
        path = tmp_path / name
        document.save(path)
        document.close()
        return path

    return make


def request(path: Path, pages: str | None = None) -> list[DocumentRequest]:
    """One document."""
    return [DocumentRequest(path, pages)]
