"""Names that tell documents apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from conduit_cli.session.labels import labels


@pytest.mark.parametrize(
    ("paths", "shown"),
    [
        (["/a/b/report.pdf", "/a/b/annex.pdf"], ["report.pdf", "annex.pdf"]),
        (["/a/b/report.pdf", "/a/b/report.pdf"], ["report.pdf", "report.pdf"]),  # one document, twice
        (["/a/2024/report.pdf", "/a/2025/report.pdf", "/a/x.pdf"], ["2024/report.pdf", "2025/report.pdf", "x.pdf"]),
        (["/a/x/q/report.pdf", "/a/y/q/report.pdf"], ["x/q/report.pdf", "y/q/report.pdf"]),
        (["/report.pdf", "/a/report.pdf"], ["/report.pdf", "a/report.pdf"]),
        (["/a/report.pdf", "/a/a/report.pdf"], ["/a/report.pdf", "a/a/report.pdf"]),
        (["/a/b/../c/report.pdf", "/a/c/report.pdf"], ["report.pdf", "report.pdf"]),
        (["/a\x1b[2J/report.pdf", "/b\udcff/report.pdf"], ["a [2J/report.pdf", "b?/report.pdf"]),
    ],
)
def test_as_much_of_the_path_as_it_takes(paths: list[str], shown: list[str]) -> None:
    assert labels([(Path(path), Path(path).name) for path in paths]) == shown


def test_relative_paths_are_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert labels([(Path("r.pdf"), "r.pdf"), (Path("../r.pdf"), "r.pdf")])[0] == "here/r.pdf"
