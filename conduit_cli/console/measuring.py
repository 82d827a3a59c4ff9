"""Progress of a long measurement on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from conduit_cli.console.output import Output
from conduit_cli.console.progress import ConsoleListener
from conduit_cli.reports import IngestedPage

__all__ = ["MeasuringListener"]

_SECONDS_BETWEEN_LINES = 15.0


class MeasuringListener(ConsoleListener):
    """Counts questions; of pages only what went wrong is told."""

    def __init__(self, output: Output) -> None:
        super().__init__(output)
        self._told = self._started = time.monotonic()
        self._first: int | None = None
        self._questions: Progress | None = None
        self._id: TaskID | None = None

    def page(self, page: IngestedPage, done: int, total: int) -> None:
        """Only failures are news here."""
        if page.status == "failed":
            self._output.note(f"{page.document}, page {page.page} failed: {'; '.join(page.notes)}")

    def phase(self, name: str) -> None:
        """Stages of one answer are no news here."""

    def question(self, done: int, total: int, name: str) -> None:
        """`done` of `total` questions are finished; `name` is the one that begins, empty at the end."""
        if self._output.quiet:
            return
        if self._output.console.is_terminal:
            self._advance(done, total)
            return
        now = time.monotonic()
        if self._first is None:
            self._first, self._started = done, now
        if not name or done == self._first or now - self._told >= _SECONDS_BETWEEN_LINES:
            self._told = now
            self._output.note(f"question {done}/{total}{self._left(done, total, now)}")

    def _left(self, done: int, total: int, now: float) -> str:
        since = done - (self._first or 0)
        if not since or done >= total:
            return ""
        return f", about {(now - self._started) / since * (total - done) / 60:.0f} min left"

    def _advance(self, done: int, total: int) -> None:
        if self._questions is None:
            self._questions = Progress(
                TextColumn("questions"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=self._output.console,
                transient=True,
            )
            self._questions.start()
            self._id = self._questions.add_task("questions", total=total)
        assert self._id is not None
        self._questions.update(self._id, completed=done, total=total)

    def _clear(self) -> None:
        super()._clear()
        if self._questions is not None:
            self._questions.stop()
            self._questions = None
