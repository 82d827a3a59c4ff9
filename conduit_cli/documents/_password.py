"""A password from a file."""

from __future__ import annotations

import os
from pathlib import Path

from conduit_cli.documents._errors import DocumentMissing
from conduit_cli.documents._wire import speakable

__all__ = ["read_password"]

_MAX_BYTES = 4096


def read_password(path: str | os.PathLike[str]) -> str:
    """The first line of a file, without its line end; UTF-8 (a byte-order mark is dropped), else Latin-1.

    Spaces belong to the password. Raises DocumentMissing if the file can't be read or is empty.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = speakable(getattr(error, "strerror", None) or error)
        raise DocumentMissing(
            f"The password file {speakable(path)} can't be read: {reason}.",
            "Put the password on the first line of a file and name it with --password-file.",
        ) from error
    line = data.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].removesuffix(b"\r")
    if not line:
        raise DocumentMissing(
            f"The password file {speakable(path)} has an empty first line.",
            "Put the password on the first line of the file.",
        )
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")
