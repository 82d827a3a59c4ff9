"""Results on disk: everything as JSON, the cells as CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["write_results"]


def write_results(results: Mapping[str, Any], folder: Path) -> None:
    """`results.json`, and `results.csv` with one line per policy and ratio."""
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    rows = [_flat(row) for row in results["cells"]]
    with (folder / "results.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Intervals as two columns, stages as one each."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name.endswith("_interval"):
            stem = name.removesuffix("_interval")
            flat[f"{stem}_low"], flat[f"{stem}_high"] = value if value else (None, None)
        elif isinstance(value, Mapping):
            flat |= {f"{stage}_s": seconds for stage, seconds in value.items()}
        else:
            flat[name] = value
    return flat
