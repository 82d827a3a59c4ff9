"""A browser for the whole run, and inspections to look at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from conduit_cli import AskOptions, DocumentRequest, Model, Session
from conduit_cli.inspection.html import write_html
from conduit_cli.inspection.model import Inspection
from conduit_cli.session.inspecting import inspect_question, page_picture
from tests.cli.conftest import conduit  # noqa: F401
from tests.session.conftest import ear, model, pdf, session, store  # noqa: F401

QUESTION = "What is the revenue on page 2?"
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip

Inspect = Callable[..., Inspection]


@pytest.fixture
def inspect(session: Session, samples: Path) -> Inspect:  # noqa: F811
    """Inspect the sample report; with `html`, write the file as well."""

    def run(
        ratio: float = 0.1,
        policy: str = "conduit",
        *,
        path: Path | None = None,
        pages: str | None = None,
        question: str = QUESTION,
        html: Path | None = None,
        compare: bool = False,
        versus: str | None = None,
    ) -> Inspection:
        options = AskOptions(ratio=ratio, policy=policy, max_new_tokens=24)
        with session.conversation([DocumentRequest(path or samples / "report.pdf", pages)], options) as conversation:
            inspection = inspect_question(conversation, question, compare=compare, versus=versus)
            if html is not None:
                write_html(inspection, partial(page_picture, conversation, inspection), html)
        return inspection

    return run


@pytest.fixture
def see(session: Session) -> Callable[[Path], Image.Image]:  # noqa: F811
    """Page 1 of a document as `inspect` draws it."""

    def draw(path: Path) -> Image.Image:
        with session.conversation([DocumentRequest(path)], AskOptions()) as conversation:
            return page_picture(conversation, inspect_question(conversation, QUESTION), 0, 1600)

    return draw


def _chromium() -> str | None:
    named = Path("/usr/bin/chromium")
    return str(named) if os.access(named, os.X_OK) else shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """One chromium; without one, what needs it is skipped."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = _chromium()
    if program is None:
        pytest.skip("no chromium or google-chrome on this machine")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield started
        started.close()


__all__ = ["FLAGS", "QUESTION", "Inspect", "Model"]
