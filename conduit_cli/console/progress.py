"""Progress on stderr: a bar on a terminal, a plain line per page elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from conduit_cli.console.output import Output
from conduit_cli.reports import IngestedPage, Listener

__all__ = ["ConsoleListener"]


class ConsoleListener(Listener):
    """Shows pages, notes and the streamed answer; a context manager that clears its bar.

    Args:
        stream: write pieces of the answer to stdout as they come.
        every_page: tell of pages that were there already, too.
    """

    def __init__(self, output: Output, *, stream: bool = False, every_page: bool = False) -> None:
        self._output, self._stream, self._every_page = output, stream, every_page
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self.streamed = False

    def __enter__(self) -> ConsoleListener:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def page(self, page: IngestedPage, done: int, total: int) -> None:
        """One page is ready; where a question was asked, pages that were there already are not news."""
        if self._output.quiet:
            return
        if self._output.console.is_terminal:
            self._advance(done, total)
        elif page.status != "failed" and (self._every_page or page.status != "present"):
            self._output.note(
                f"page {done}/{total}: {page.document}, page {page.page}, {page.tokens} tokens, {page.status}"
            )
        if page.status == "failed":
            self._output.note(f"{page.document}, page {page.page} failed: {'; '.join(page.notes)}")
        elif page.status != "present":
            # why a page could not be stored is told once, by `note`
            for note in page.notes[:-1] if page.status == "unstored" else page.notes:
                self._output.note(f"{page.document}, page {page.page}: {note}")

    def phase(self, name: str) -> None:
        """Pages are done as soon as a prompt is served."""
        self._clear()

    def note(self, text: str) -> None:
        """A sentence for the user."""
        self._output.note(text)

    def text(self, piece: str) -> None:
        """A piece of the answer."""
        if self._stream and piece:
            self.streamed = True
            self._output.answer(piece)

    def _advance(self, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = Progress(
                TextColumn("pages"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=self._output.console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("pages", total=total)
        assert self._task is not None
        self._bar.update(self._task, completed=done, total=total)

    def _clear(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
