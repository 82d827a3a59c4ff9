"""Finished questions on disk: one JSON line each, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from conduit_cli.errors import InputError, UsageError

__all__ = ["Journal"]


class Journal:
    """The records of one run in a folder: `run.json` says of what, `records.jsonl` holds them.

    Args:
        folder: made where it is missing.
        settings: everything that a record depends on; a journal of other settings is refused.
        fresh: start anew, whatever is there.

    Raises:
        UsageError: the folder holds a run with other settings.
        InputError: the folder can't be written.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], *, fresh: bool = False) -> None:
        self.folder = folder
        plain = json.loads(json.dumps(settings, default=str))
        path, lines = folder / "run.json", folder / "records.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if fresh:
                lines.unlink(missing_ok=True)
            elif path.exists():
                _compare(json.loads(path.read_text("utf-8")), plain, folder)
            part = path.with_suffix(".part")
            part.write_text(json.dumps(plain, indent=1) + "\n", "utf-8")
            os.replace(part, path)
            self.records = _whole_records(lines)
            self._file = lines.open("a", encoding="utf-8")
        except (OSError, ValueError) as error:
            told = f"the results folder {folder} can't be used: {error}"
            raise InputError(told, "name another with --out") from error

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, record: Mapping[str, Any]) -> None:
        """Append a finished question; it is on disk when this returns."""
        plain = json.loads(json.dumps(record))
        self._file.write(json.dumps(plain) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.records[plain["question"]] = plain


def _compare(there: Any, wanted: Mapping[str, Any], folder: Path) -> None:
    known = there if isinstance(there, dict) else {}
    changed = [name for name in sorted({*known, *wanted}) if known.get(name) != wanted.get(name)]
    if changed:
        raise UsageError(
            f"{folder} holds a run with other settings ({', '.join(changed)})",
            "start anew with --fresh, or name another folder with --out",
        )


def _whole_records(path: Path) -> dict[str, dict[str, Any]]:
    """The finished records by question; a last line that was cut by a crash is taken away."""
    if not path.exists():
        return {}
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    if end < len(data):
        with path.open("r+b") as file:
            file.truncate(end)
    records = (json.loads(line) for line in data[:end].splitlines())
    return {record["question"]: record for record in records}
