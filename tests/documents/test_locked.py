"""Locked PDFs and passwords."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pymupdf
import pytest

from conduit_cli.documents import DocumentLocked, DocumentMissing, open_document, read_password
from tests.documents.makers import numbered_pdf
from tests.documents.test_faults import budget

METHODS = {
    "RC4 40": pymupdf.PDF_ENCRYPT_RC4_40,
    "RC4 128": pymupdf.PDF_ENCRYPT_RC4_128,
    "AES 128": pymupdf.PDF_ENCRYPT_AES_128,
    "AES 256": pymupdf.PDF_ENCRYPT_AES_256,
}


@pytest.fixture(params=list(METHODS.values()), ids=list(METHODS))
def method(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.mark.parametrize("password", ["a b ", "ÄÖÜß€"])
def test_password_opens(method: int, password: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(numbered_pdf(2, encryption=method, user_pw=password, owner_pw="öwner"))
    with pytest.raises(DocumentLocked, match="is locked") as caught:
        open_document(path)
    assert not caught.value.tried and "--password-file" in str(caught.value.hint)
    with pytest.raises(DocumentLocked, match="does not open") as caught:
        open_document(path, password="wrong\udcfc")
    assert caught.value.tried
    for given in dict.fromkeys((password, unicodedata.normalize("NFD", password), "öwner")):
        with open_document(path, password=given) as document:
            assert document.page_count == 2
            assert document.render(2, budget).notes == ()


def test_owner_password_only_opens_without(method: int, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(numbered_pdf(2, encryption=method, owner_pw="owner"))
    for password in (None, "unneeded"):
        with open_document(path, password=password) as document:
            assert document.page_count == 2


def test_password_is_not_an_argument_of_the_child(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(numbered_pdf(1, encryption=5, user_pw="hush-hush"))
    with open_document(path, password="hush-hush") as document:
        pid = document._renderer.pid
        for name in ("cmdline", "environ"):
            assert b"hush-hush" not in Path(f"/proc/{pid}/{name}").read_bytes()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"secret\n", "secret"),
        (b"secret\r\nmore", "secret"),
        (b" a b ", " a b "),
        ("grün".encode(), "grün"),
        (b"\xef\xbb\xbfgr\xc3\xbcn\n", "grün"),
        (b"gr\xfcn", "grün"),
    ],
)
def test_read_password(content: bytes, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "word"
    path.write_bytes(content)
    assert read_password(path) == expected


def test_unreadable_password_file(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"\n")
    for path, says in ((tmp_path / "none", "No such file"), (tmp_path, "directory"), (tmp_path / "empty", "empty")):
        with pytest.raises(DocumentMissing, match=says) as caught:
            read_password(path)
        assert caught.value.hint
