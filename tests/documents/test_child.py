"""The rendering child: its limits, its death and rebirth, its memory, its surroundings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest

from conduit_cli.documents import DocumentChanged, DocumentTooLarge, Limits, PageError, open_document
from tests.documents.makers import numbered_pdf, png, quadrants, raw_pdf
from tests.documents.test_faults import budget
from tests.documents.test_pdf_pixels import exactly

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="looks at processes through /proc")

PLAIN = ("/MediaBox [0 0 100 100]", quadrants(0, 0, 100, 100))
ROOT = Path(__file__).parents[2]


def endless_pdf() -> bytes:
    """Three pages; the second draws a form that draws ten forms that draw ten forms ... twelve deep."""
    forms: dict[int, bytes] = {}
    for level in range(12):
        body = b"/F Do " * 10
        inner = b"/Resources << /XObject << /F %d 0 R >> >>" % (101 + level) if level < 11 else b""
        forms[100 + level] = (
            b"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] %b /Length %d >>\nstream\n%b\nendstream"
            % (inner, len(body), body)
        )
    entries = "/MediaBox [0 0 100 100] /Resources << /XObject << /F 100 0 R >> >>"
    return raw_pdf([PLAIN, (entries, b"/F Do"), PLAIN], forms)


def alive(pid: int | None) -> bool:
    """Whether the process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def resident(pid: int | str | None) -> int:
    """Bytes of memory that the process occupies."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_until_dead(pid: int | None) -> None:
    deadline = time.monotonic() + 10
    while alive(pid):
        assert time.monotonic() < deadline, "the child lives on"
        time.sleep(0.02)


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "file.pdf"
    path.write_bytes(data)
    return path


def test_endless_page_is_killed_and_the_next_one_comes_out(tmp_path: Path) -> None:
    with open_document(write(tmp_path, endless_pdf()), limits=Limits(seconds=2)) as document:
        first = document.render(1, budget)
        child = document._renderer.pid
        start = time.monotonic()
        with pytest.raises(PageError, match=r"Page 2 .* more time") as caught:
            document.render(2, budget)
        assert time.monotonic() - start < 10
        assert caught.value.number == 2 and caught.value.exit_code == 3
        assert child is not None and not alive(child)
        third = document.render(3, budget)
    assert third.digest == first.digest and third.number == 3


def test_killed_child_is_replaced(tmp_path: Path) -> None:
    """A crash in C costs nothing more than the page it happened on."""
    with open_document(write(tmp_path, numbered_pdf(2, encryption=5, user_pw="u")), password="u") as document:
        before = document.render(1, budget).digest
        assert document._renderer.pid is not None
        os.kill(document._renderer.pid, signal.SIGSEGV)
        wait_until_dead(document._renderer.pid)
        assert document.render(1, budget).digest == before


def test_picture_beyond_the_memory_limit_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, png(6000, 6000, 8, 2, bytes(6000 * 18001)))
    with open_document(path, limits=Limits(memory=60 << 20)) as document, pytest.raises(PageError, match="more memory"):
        document.render(1, budget)
    with pytest.raises(DocumentTooLarge, match="6000 x 6000"):
        open_document(path, limits=Limits(image_pixels=10_000_000))


def test_page_with_a_picture_of_400_megapixels_stays_small(tmp_path: Path) -> None:
    packed = zlib.compress(bytes(400_000_000), 1)
    picture = (
        b"<< /Type /XObject /Subtype /Image /Width 20000 /Height 20000 /BitsPerComponent 8 /ColorSpace /DeviceGray"
        b" /Filter /FlateDecode /Length %d >>\nstream\n%b\nendstream" % (len(packed), packed)
    )
    entries = "/MediaBox [0 0 100 100] /Resources << /XObject << /I 5 0 R >> >>"
    path = write(tmp_path, raw_pdf([(entries, b"q 100 0 0 100 0 0 cm /I Do Q"), PLAIN], {5: picture}))
    with open_document(path, limits=Limits(memory=300 << 20)) as document:
        try:
            document.render(1, budget)
        except PageError as error:
            assert error.hint
        assert document.render(2, budget).notes == ()


def test_600_pages_under_a_memory_ceiling(tmp_path: Path) -> None:
    """Neither parent nor child grows with the page count, and each page is itself."""
    path = write(tmp_path, numbered_pdf(600))
    digests = set()
    with open_document(path) as document:
        peak = {300: 0, 600: 0}
        for number in range(1, 601):
            digests.add(document.render(number, lambda w, h: (150, 100)).digest)
            if number % 20 == 0:
                child = resident(document._renderer.pid)
                for mark in peak:
                    if number <= mark:
                        peak[mark] = max(peak[mark], child)
    assert len(digests) == 600
    assert peak[600] < 200 << 20
    assert peak[600] < peak[300] + (16 << 20)


def test_parent_does_not_keep_pages(tmp_path: Path) -> None:
    path = write(tmp_path, numbered_pdf(30))
    with open_document(path) as document:
        document.render(1, lambda w, h: (2000, 2000))
        before = resident("self")
        for number in range(2, 31):
            document.render(number, lambda w, h: (2000, 2000))
        assert resident("self") < before + (100 << 20)  # 29 pages would be 460 MB


def test_one_thread_draws(tmp_path: Path) -> None:
    """MuPDF is driven by one thread of one process, and the parent never imports it."""
    with open_document(write(tmp_path, numbered_pdf(2))) as document:
        document.render(1, budget)
        assert len(os.listdir(f"/proc/{document._renderer.pid}/task")) == 1
    assert threading.active_count() < 20


def test_parent_and_child_stay_light(tmp_path: Path) -> None:
    path = write(tmp_path, numbered_pdf(1))
    code = (
        "import sys\n"
        "from conduit_cli.documents import open_document\n"
        f"with open_document({str(path)!r}) as d:\n"
        "    print(d.render(1, lambda w, h: (300, 200)).image.size)\n"
        "    maps = open(f'/proc/{d._renderer.pid}/maps').read()\n"
        "print([m for m in ('torch', 'transformers', 'pymupdf', 'numpy') if m in sys.modules])\n"
        "print('torch' in maps, 'onnx' in maps)\n"
    )
    script = tmp_path / "script.py"  # no `if __name__ == '__main__'`: the child must not run it again
    script.write_text(code)
    (tmp_path / "PIL.py").write_text("raise SystemExit('a file in the current directory was imported')")
    roots = os.pathsep.join([str(ROOT), str(ROOT / "store")])
    done = subprocess.run(
        [sys.executable, "-P", str(script)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": roots},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["(300, 200)", "[]", "False False"]


def test_child_ends_with_its_parent(tmp_path: Path) -> None:
    path = write(tmp_path, numbered_pdf(1))
    code = (
        "import os, signal\n"
        "from conduit_cli.documents import open_document\n"
        f"d = open_document({str(path)!r})\n"
        "print(d._renderer.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=_environment())
    wait_until_dead(int(done.stdout))


def test_interrupt_leaves_a_usable_document(tmp_path: Path) -> None:
    """Ctrl-C in the middle of an exchange: the half-read child is dropped, the next page is right."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job is born ignoring it
    with open_document(write(tmp_path, endless_pdf())) as document:
        expected = document.render(3, budget).digest
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            document.render(2, budget)
        timer.join()
        assert document.render(3, budget).digest == expected


def test_file_changed_while_open_is_not_believed(tmp_path: Path) -> None:
    path = write(tmp_path, numbered_pdf(2))
    with open_document(path) as document:
        stamp = path.stat()
        data = bytearray(path.read_bytes())
        path.write_bytes(data)
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # same name, size and mtime
        with pytest.raises(DocumentChanged, match="changed while") as caught:
            document.render(1, budget)
        assert caught.value.exit_code == 3


def test_same_path_and_mtime_other_bytes_other_digest(tmp_path: Path) -> None:
    path = write(tmp_path, numbered_pdf(1))
    stamp = path.stat()
    with open_document(path) as document:
        before = document.digest
    path.write_bytes(path.read_bytes().replace(b"%%EOF", b"%%EOE"))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with open_document(path) as document:
        assert document.digest != before


def test_close_ends_the_child_and_may_be_repeated(tmp_path: Path) -> None:
    document = open_document(write(tmp_path, numbered_pdf(1)))
    pid = document._renderer.pid
    document.close()
    document.close()
    assert pid is not None and not alive(pid)


def test_wrong_number_and_silly_fit_are_the_callers_fault(tmp_path: Path) -> None:
    with open_document(write(tmp_path, numbered_pdf(1))) as document:
        for number in (0, 2, -1):
            with pytest.raises(ValueError, match="pages 1 to 1"):
                document.render(number, budget)
        for size in ((0, 10), (20_000, 20_000)):
            with pytest.raises(ValueError, match="fit asked"):
                document.render(1, exactly(*size))


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "store")])}
