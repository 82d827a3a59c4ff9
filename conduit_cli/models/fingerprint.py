"""What a model *is*, for the store: never its name, always its content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from conduit_cli.models.locate import Located

__all__ = ["digest_json", "fingerprint"]

_CHUNK = 1 << 22


def fingerprint(located: Located) -> str:
    """64 hex digits that change when weights or configuration change.

    A hub snapshot is immutable and named by its commit; a plain folder is hashed file by file
    (config and every safetensors file), so a fine-tune under the same name is another model.
    """
    if located.revision is not None:
        return digest_json({"hub": located.name, "revision": located.revision})
    files = [located.folder / "config.json", *sorted(located.folder.glob("*.safetensors"))]
    return digest_json({path.name: _file_digest(path) for path in files})


def digest_json(value: Any) -> str:
    """sha256 hex of canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
