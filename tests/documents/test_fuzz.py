"""Truncations and bit flips of good files: pages or one sentence, never a crash, a hang or a traceback."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from conduit_cli.documents import Limits, open_document
from conduit_cli.errors import InputError
from tests.documents.makers import numbered_pdf, saved, tiny_png
from tests.documents.test_faults import budget

Record = Callable[[str, object], None]

_SECONDS = 10.0
_NOISE = Image.effect_noise((64, 48), 80)
_COLOUR = Image.merge("RGB", (_NOISE, _NOISE.rotate(180), _NOISE.transpose(Image.Transpose.FLIP_LEFT_RIGHT)))

SEEDS = {
    "PDF": numbered_pdf(2),
    "packed PDF": numbered_pdf(2, deflate=True, garbage=4, use_objstms=1),
    "PNG": tiny_png(),
    "JPEG": saved(_COLOUR, "JPEG"),
    "TIFF": saved(_COLOUR, "TIFF", compression="tiff_lzw", save_all=True, append_images=[_COLOUR]),
    "GIF": saved(_COLOUR, "GIF", save_all=True, append_images=[_COLOUR.rotate(90)]),
    "WEBP": saved(_COLOUR, "WEBP"),
    "AVIF": saved(_COLOUR, "AVIF"),
    "BMP": saved(_COLOUR, "BMP"),
}


def attempt(path: Path) -> None:
    """Open and render; only an InputError with a clean sentence may come out, and soon."""
    start = time.monotonic()
    texts: list[str] = []
    try:
        with open_document(path, limits=Limits(seconds=_SECONDS, memory=512 << 20)) as document:
            texts += document.notes
            for number in range(1, min(document.page_count, 4) + 1):
                try:
                    texts += document.render(number, budget).notes
                except InputError as error:
                    texts += [error.message, str(error.hint)]
    except InputError as error:
        assert error.hint and error.exit_code == 3
        texts += [error.message, error.hint]
    assert time.monotonic() - start < 30
    for text in texts:
        text.encode("utf-8")
        assert text.isprintable()


def damage(seed: bytes, path: Path, examples: int) -> int:
    """Try `examples` damaged copies of `seed` at `path`; how many were tried."""
    tried = 0

    @settings(max_examples=examples, deadline=None)
    @given(
        flips=st.lists(st.integers(0, len(seed) * 8 - 1), max_size=12),
        length=st.one_of(st.just(len(seed)), st.integers(1, len(seed))),
    )
    def one(flips: list[int], length: int) -> None:
        nonlocal tried
        tried += 1
        content = bytearray(seed)
        for place in flips:
            content[place // 8] ^= 1 << place % 8
        path.write_bytes(content[:length])
        attempt(path)

    one()
    return tried


@pytest.mark.parametrize("kind", SEEDS)
def test_damaged_file(kind: str, tmp_path: Path, record_property: Record) -> None:
    record_property("faults", damage(SEEDS[kind], tmp_path / "damaged", 12))


@pytest.mark.parametrize("name", ["report.pdf", "invoice.pdf", "dashboard.png", "scan.png"])
def test_damaged_sample(name: str, samples: Path, tmp_path: Path, record_property: Record) -> None:
    record_property("faults", damage((samples / name).read_bytes(), tmp_path / "damaged", 8))


def test_a_good_start_and_noise(tmp_path: Path, record_property: Record) -> None:
    path, tried = tmp_path / "noise", 0

    @settings(max_examples=12, deadline=None)
    @given(head=st.sampled_from([b"%PDF-1.7\n", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\x00"]), tail=st.binary())
    def one(head: bytes, tail: bytes) -> None:
        nonlocal tried
        tried += 1
        path.write_bytes(head + tail)
        attempt(path)

    one()
    record_property("faults", tried)
