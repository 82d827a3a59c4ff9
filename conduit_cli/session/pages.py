"""From documents to stored page states: what is missing is prefilled, what is there is left alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from conduit_cli.documents import RENDERER, Document, Page, PageError, open_document, parse_pages
from conduit_cli.engine.prefill import FreshPage, prefill_page
from conduit_cli.errors import StoreError
from conduit_cli.models.loading import Model
from conduit_cli.reports import IngestedPage, Listener
from conduit_cli.session.options import DocumentRequest
from conduit_store import Store, entry_key
from conduit_store.errors import StoreFull, StoreLockless, StoreReadOnly

__all__ = ["PageLoader", "PageRef"]


@dataclass(frozen=True)
class PageRef:
    """One page of an open document, known by the key of its entry.

    Attributes:
        document: still open, so that a damaged entry can be rebuilt.
        identity: the entry's identity; its digest is `key`.
        fresh: the page's state if it could not be stored.
        report: how it was ingested.
    """

    document: Document
    number: int
    identity: dict[str, Any]
    key: str
    report: IngestedPage
    fresh: FreshPage | None = None


@dataclass
class PageLoader:
    """Brings pages into a store for one model.

    `entries_written` stays 0 on a second run over the same pages.
    """

    model: Model
    store: Store
    codec: str
    listener: Listener
    _told: set[str] = field(default_factory=set)
    _unstored: bool = False

    def open(self, stack: ExitStack, requests: Sequence[DocumentRequest]) -> list[tuple[Document, list[int]]]:
        """Open every document and resolve its page numbers before any page is rendered."""
        opened = []
        for request in requests:
            document = stack.enter_context(open_document(request.path, password=request.password))
            opened.append((document, parse_pages(request.pages, document.page_count)))
            for note in document.notes:
                self._tell(f"{document.name}: {note}")
        return opened

    def ingest(self, opened: Sequence[tuple[Document, list[int]]], *, strict: bool) -> Iterator[PageRef | IngestedPage]:
        """Yield each page as it is ready: a `PageRef`, or the report of one that could not be rendered.

        Raises:
            PageError: a page failed and `strict` is set.
        """
        total = sum(len(numbers) for _, numbers in opened)
        done = 0
        for document, numbers in opened:
            for number in numbers:
                start = time.perf_counter()
                result: PageRef | IngestedPage
                try:
                    result = self.page(document, number)
                except PageError as error:
                    if strict:
                        raise
                    result = IngestedPage(document.name, number, "failed", notes=(error.message,))
                report = replace(
                    result if isinstance(result, IngestedPage) else result.report,
                    seconds=time.perf_counter() - start,
                )
                done += 1
                self.listener.page(report, done, total)
                yield report if isinstance(result, IngestedPage) else replace(result, report=report)

    def page(self, document: Document, number: int) -> PageRef:
        """One page: found in the store, or prefilled and written."""
        memo = f"{document.digest}:{number}:{RENDERER}:{self.model.max_pixels}:{self.model.vlm.name}"
        known = self.store.recall("page", memo)
        if isinstance(known, dict):
            identity = self.identity(str(known["digest"]))
            key = entry_key(identity)
            if self.store.contains(key):
                return self._present(document, number, identity, key, known)
        page = document.render(number, self.model.vlm.fit)
        identity = self.identity(page.digest)
        key = entry_key(identity)
        stored = self.store.read(key, identity)
        if stored is not None:
            ref = self._present(document, number, identity, key, {**stored.meta, "notes": page.notes})
        else:
            ref = self.build(document, page, identity, key)
        self._remember(memo, page, ref)
        return ref

    def build(self, document: Document, page: Page, identity: dict[str, Any], key: str) -> PageRef:
        """Prefill a rendered page and write its entry; kept in memory if it can't be written."""
        fresh = prefill_page(self.model.vlm, page.image)
        grid = fresh.meta["grid"]
        report = IngestedPage(
            document=document.name,
            page=page.number,
            status="rebuilt" if key in self.store.damaged else "stored",
            tokens=int(fresh.meta["tokens"]),
            grid=tuple(grid) if grid else None,
            key=key,
            notes=page.notes,
        )
        meta = {**fresh.meta, "document": document.name, "page": page.number}
        try:
            info = self.store.write(identity, fresh.tensors, meta)
            self.store.label(key, document.name, page.number)
        except (StoreFull, StoreLockless, StoreReadOnly) as error:
            if not self._unstored:
                self._tell(f"{error.message}; answering without storing")
            self._unstored = True
            report = replace(report, status="unstored", notes=(*report.notes, error.message))
            return PageRef(document, page.number, identity, key, report, fresh)
        return PageRef(document, page.number, identity, key, replace(report, nbytes=info.nbytes))

    def rebuild(self, ref: PageRef) -> PageRef:
        """Render and prefill a page again whose entry was found damaged."""
        page = ref.document.render(ref.number, self.model.vlm.fit)
        return self.build(ref.document, page, ref.identity, ref.key)

    def identity(self, digest: str) -> dict[str, Any]:
        """Everything that a page's state depends on."""
        return {**self.model.identity, "page": digest, "codec": self.codec, "engine": self.model.vlm.revision}

    def _present(
        self, document: Document, number: int, identity: dict[str, Any], key: str, known: dict[str, Any]
    ) -> PageRef:
        self.store.label(key, document.name, number)
        grid = known.get("grid")
        report = IngestedPage(
            document=document.name,
            page=number,
            status="present",
            tokens=int(known.get("tokens", 0)),
            grid=(int(grid[0]), int(grid[1])) if grid else None,
            key=key,
            notes=tuple(known.get("notes", ())),
        )
        return PageRef(document, number, identity, key, report)

    def _remember(self, memo: str, page: Page, ref: PageRef) -> None:
        """Note which pixels this page of this file gives, so that the next run need not render it."""
        if ref.fresh is not None:
            return
        report = ref.report
        value = {
            "digest": page.digest,
            "tokens": report.tokens,
            "grid": list(report.grid) if report.grid else None,
            "notes": list(page.notes),
        }
        try:
            self.store.remember("page", memo, value)
        except StoreError as error:
            self._tell(error.message)

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.listener.note(text)
