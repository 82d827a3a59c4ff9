"""Every fault of the table ends as the table says: one sentence and a hint, or pages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conduit_cli.documents import DocumentMissing, PageError, open_document
from conduit_cli.errors import InputError
from tests.documents.faults import FAULTS, Fault


def budget(width: float, height: float) -> tuple[int, int]:
    """What a model's pixel budget asks for: about 100,000 pixels, sides of 28 or more."""
    scale = (100_000 / (width * height)) ** 0.5
    return max(28, round(width * scale)), max(28, round(height * scale))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_ends_as_listed(fault: Fault, tmp_path: Path) -> None:
    path = tmp_path / fault.file
    path.write_bytes(fault.make())
    told: list[str] = []
    try:
        with open_document(path) as document:
            told += document.notes
            for number in range(1, document.page_count + 1):
                page = document.render(number, budget)
                assert page.number == number and page.image.mode == "RGB" and len(page.digest) == 64
                told += page.notes
    except InputError as error:
        assert fault.outcome == ("page" if isinstance(error, PageError) else "refused"), error
        assert fault.error in [cls.__name__ for cls in type(error).__mro__], repr(error)
        assert fault.says in error.message
        _is_one_sentence(error, fault.file)
    else:
        assert fault.outcome == "read"
        assert any(fault.says in text for text in told) or not fault.says, told
    for text in told:
        text.encode("utf-8")


def _is_one_sentence(error: InputError, name: str) -> None:
    assert error.exit_code == 3
    assert error.hint and "\n" not in error.message + error.hint
    assert name in error.message and error.message.endswith(".")
    (error.message + error.hint).encode("utf-8")


def test_missing_directory_device_and_rights(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path, says in (
        (tmp_path / "no.pdf", "does not exist"),
        (tmp_path, "is a directory"),
        (fifo, "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (tmp_path / ("x" * 400), "can't be read"),
        (Path("nul\0byte"), "can't be read"),
        (fifo / "below", "does not exist"),
    ):
        with pytest.raises(DocumentMissing, match=says) as caught:
            open_document(path)
        assert caught.value.exit_code == 3 and caught.value.hint
        assert "\0" not in caught.value.message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(b"%PDF-")
    path.chmod(0)
    with pytest.raises(DocumentMissing, match="may not be read"):
        open_document(path)


def test_file_name_that_is_no_text(tmp_path: Path) -> None:
    from tests.documents.makers import numbered_pdf

    path = tmp_path / os.fsdecode(b"caf\xe9\x1b[31m.pdf")
    path.write_bytes(numbered_pdf(1))
    with open_document(path) as document:
        assert document.render(1, budget).image.size == budget(300, 200)
        document.name.encode("utf-8")
        assert "\x1b" not in document.name
