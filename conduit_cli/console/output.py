"""Where things go: answers and data to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

__all__ = ["Output", "printable"]


class Output:
    """A command's voice.

    Args:
        as_json: data goes to stdout as one JSON document, and answers are not streamed.
        quiet: nothing but the answer, data and errors is written.
    """

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet
        self._out = Console(soft_wrap=True, highlight=False)
        self._err = Console(stderr=True, soft_wrap=True, highlight=False)

    @property
    def console(self) -> Console:
        """The stderr console, for progress."""
        return self._err

    def data(self, value: Any) -> None:
        """One JSON document on stdout."""
        sys.stdout.write(json.dumps(value, ensure_ascii=True, indent=None, default=list) + "\n")
        sys.stdout.flush()

    def answer(self, piece: str) -> None:
        """A piece of an answer, as it comes."""
        sys.stdout.write(printable(piece, keep="\n\t"))
        sys.stdout.flush()

    def line(self, text: str) -> None:
        """A line of data on stdout."""
        self._out.print(Text(printable(text)))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A table on stdout; numbers are aligned to the right."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for index, column in enumerate(columns):
            numeric = all(isinstance(row[index], int | float) for row in rows) if rows else False
            table.add_column(column, justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(printable(str(cell))) for cell in row))
        self._out.print(table)

    def show(self, drawn: RenderableType) -> None:
        """Something drawn, on stdout; the caller vouches for its strings."""
        self._out.print(drawn)

    def note(self, text: str) -> None:
        """One line on stderr, left out when quiet."""
        if not self.quiet:
            self._err.print(Text(printable(text), style="dim"))

    def error(self, message: str, hint: str | None = None) -> None:
        """What went wrong, and what to type next."""
        self._err.print(Text.assemble(("error: ", "bold red"), printable(message)))
        if hint:
            self._err.print(Text(f"  {printable(hint)}"))


def printable(text: str, keep: str = "") -> str:
    """Text that can't move the cursor, hide, or break UTF-8 output; control characters become `?`."""
    return "".join(
        char if char in keep or unicodedata.category(char)[0] != "C" or char == "\u200d" else "?" for char in text
    )
