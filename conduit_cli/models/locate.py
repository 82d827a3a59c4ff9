"""From a model's name to a local folder, with the network only where it is allowed."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from conduit_cli.errors import ModelError, first_line
from conduit_cli.models.names import BUNDLED

__all__ = ["Located", "bundled_folder", "locate", "settled_name"]


_FILES = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]


@dataclass(frozen=True, slots=True)
class Located:
    """Where a model lies.

    Attributes:
        name: the hub's, with the revision where one was given; of a folder its full path.
        folder: local folder with config, tokenizer and safetensors weights.
        revision: the commit of a hub snapshot, or None for a plain folder.
    """

    name: str
    folder: Path
    revision: str | None


def bundled_folder() -> Path:
    """The bundled model's folder inside the installed package."""
    return Path(__file__).parent / "bundled"


def locate(name: str, *, offline: bool = False) -> Located:
    """Find a model: `bundled`, a local folder, or a hub name with an optional `@revision`.

    Local files are used as they are, without a network call. A hub name is looked up in the local
    hub cache first, and fetched only if it is missing and neither `offline` nor `HF_HUB_OFFLINE`
    forbids it.

    Raises:
        ModelError: no such folder, no such model, or weights that are missing offline.
    """
    if name == BUNDLED:
        return Located(name, bundled_folder(), None)
    folder = Path(name).expanduser()
    if name.strip() and folder.is_dir():
        return _checked(Located(str(folder.resolve()), folder.resolve(), None))
    if folder.is_absolute() or name.startswith((".", "~")) or name.count("/") != 1:
        raise ModelError(
            f"there is no model folder {name!r}, and it is not a hub name such as Qwen/Qwen2.5-VL-3B-Instruct",
            "conduit models list",
        )
    return _from_hub(name, offline=offline or os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0"))


def settled_name(name: str) -> str:
    """A name that means the same from any folder: a hub's as it is, a local folder's full path.

    Raises:
        ModelError: it is neither, or the folder holds no model.
    """
    if Path(name).expanduser().is_dir() or name.count("/") != 1 or name.startswith((".", "~", "/")):
        return locate(name, offline=True).name
    return name


def _from_hub(name: str, *, offline: bool) -> Located:
    from huggingface_hub import snapshot_download

    repo, _, revision = name.partition("@")
    fetch = f"hf download {repo}" + (f" --revision {revision}" if revision else "")
    for local_only in (True, False):
        if not local_only and offline:
            raise ModelError(f"the weights of {name} are not on this machine, and the network is off", fetch)
        try:
            folder = Path(
                snapshot_download(repo, revision=revision or None, allow_patterns=_FILES, local_files_only=local_only)
            )
            return _checked(Located(name, folder, folder.name))
        except ModelError:
            if not local_only:
                raise
        except Exception as error:
            if not local_only:
                raise ModelError(f"{name} could not be fetched: {first_line(error)}", fetch) from error
    raise AssertionError("unreachable")


def _checked(located: Located) -> Located:
    """A folder must hold a config and safetensors weights; pickled ones are never read."""
    if not (located.folder / "config.json").is_file():
        raise ModelError(f"{located.folder} is no model folder: config.json is missing")
    missing = _missing_weights(located.folder)
    if missing is not None:
        raise ModelError(
            f"{located.folder} has no {missing}, and pickled weights are not read"
            if missing == "safetensors weights"
            else f"{located.folder} is not complete: {missing} is missing",
            f"hf download {located.name}" if located.revision else "a folder of safetensors weights, or a hub name",
        )
    return located


def _missing_weights(folder: Path) -> str | None:
    """What is missing of a model's weights: all of them, or one file that its index names."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            named = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
        except (ValueError, KeyError, AttributeError):
            return "a readable model.safetensors.index.json"
        return next((name for name in sorted(named) if not (folder / name).is_file()), None)
    return None if any(folder.glob("*.safetensors")) else "safetensors weights"
