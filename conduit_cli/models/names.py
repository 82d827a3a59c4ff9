"""Which model is used, and the user's choice of one."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Literal

from conduit_cli.errors import ConduitError

__all__ = ["BUNDLED", "Origin", "choose_model", "config_path", "read_config", "resolve_model_name"]

BUNDLED = "bundled"
"""The name of the model that ships inside the package."""

Origin = Literal["option", "environment", "config", "bundled"]


def config_path() -> Path:
    """The user's config file: `CONDUIT_CONFIG`, else `conduit/config.toml` in their config folder."""
    from platformdirs import user_config_path

    named = os.environ.get("CONDUIT_CONFIG")
    return Path(named).expanduser() if named else user_config_path("conduit") / "config.toml"


def read_config() -> dict[str, Any]:
    """The config file's settings; empty where there is none.

    Raises:
        ConduitError: it is not TOML.
    """
    path = config_path()
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConduitError(
            f"the config file {path} can't be read: {error}", "mend it, or delete it to start anew"
        ) from error


def choose_model(name: str | None) -> Path:
    """Write the user's choice of model (None takes it back); the config file's path."""
    settings = {key: value for key, value in read_config().items() if key != "model"}
    if name is not None:
        settings = {"model": name, **settings}
    path = config_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        temporary.write_text("".join(f"{key} = {_toml(value)}\n" for key, value in settings.items()), "utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise ConduitError(f"the config file {path} can't be written: {error.strerror}") from error
    return path


def resolve_model_name(option: str | None) -> tuple[str, Origin]:
    """The model's name and who chose it: option, `CONDUIT_MODEL`, config file, else the bundled one."""
    if option:
        return option, "option"
    if named := os.environ.get("CONDUIT_MODEL"):
        return named, "environment"
    if isinstance(chosen := read_config().get("model"), str):
        return chosen, "config"
    return BUNDLED, "bundled"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)
