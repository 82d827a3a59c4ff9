"""The bundled model over a store of the test's own, the command line, and small question sets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import conduit
from tests.session.conftest import ear, model, pdf, session, store

__all__ = ["MakeSet", "conduit", "ear", "make_set", "model", "pdf", "session", "store"]

MakeSet = Callable[..., Path]


@pytest.fixture
def make_set(tmp_path: Path) -> MakeSet:
    """Write records as a set of JSON lines."""

    def make(*records: dict[str, Any], name: str = "set.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return path

    return make
