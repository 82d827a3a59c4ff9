"""A session: one model over one store."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from conduit_cli import policies
from conduit_cli.engine.decode import decode
from conduit_cli.engine.pipeline import Served, serve
from conduit_cli.engine.prompt import Prompt, build_prompt
from conduit_cli.engine.vlm import PageState
from conduit_cli.errors import InputError, UsageError
from conduit_cli.models.loading import Model
from conduit_cli.reports import Answer, IngestedPage, IngestReport, Listener, TokenCounts
from conduit_cli.session.conversation import Conversation, messages_for
from conduit_cli.session.limits import check_length, check_memory
from conduit_cli.session.options import AskOptions, DocumentRequest
from conduit_cli.session.pages import PageLoader, PageRef
from conduit_cli.session.shares import page_shares
from conduit_store import Store

__all__ = ["Session"]


class Session:
    """Ingests documents into a store and answers questions about them.

    Args:
        model: from `load_model`.
        store: from `open_store`.
        codec: how tensors are written: `exact`, `bf16` or `int8`.
        listener: is told of pages, stages, notes and pieces of the answer.
    """

    def __init__(self, model: Model, store: Store, *, codec: str = "exact", listener: Listener | None = None) -> None:
        self.model, self.store, self.codec = model, store, codec
        self.listener = listener or Listener()
        self._pages = PageLoader(model, store, codec, self.listener)

    def ingest(self, requests: Sequence[DocumentRequest], *, strict: bool = False) -> IngestReport:
        """Prefill and store every page that is not there yet.

        A page that can't be rendered is reported as `failed` and keeps its number.

        Raises:
            InputError: a document can't be opened; with `strict`, a page can't be rendered.
            StoreError: the store can't be used at all.
        """
        with ExitStack() as stack:
            opened = self._pages.open(stack, requests)
            results = self._pages.ingest(opened, strict=strict)
            pages = [r if isinstance(r, IngestedPage) else r.report for r in results]
            pages = [self._still_there(page) for page in pages]
        return IngestReport(self.model.name, str(self.store.path), self.codec, tuple(pages))

    def _still_there(self, page: IngestedPage) -> IngestedPage:
        """The page's report, told as unstored if a later page of the same run took its room."""
        if page.key is None or page.status == "unstored" or self.store.contains(page.key):
            return page
        gone = "it had to make room for another page: the store is too small for all of them"
        return replace(page, status="unstored", notes=(*page.notes, gone))

    def ask(self, requests: Sequence[DocumentRequest], question: str, options: AskOptions) -> Answer:
        """Answer one question about some documents; what is missing is ingested first.

        Raises:
            UsageError: no question or no document.
            InputError: a document can't be opened, no page could be rendered, or the prompt is too long.
        """
        with self.conversation(requests, options) as conversation:
            return conversation.ask(question)

    @contextmanager
    def conversation(
        self, requests: Sequence[DocumentRequest], options: AskOptions, *, strict: bool = False
    ) -> Iterator[Conversation]:
        """Ingest what is missing and keep the documents open for several questions.

        Raises:
            InputError: a document can't be opened, no page could be rendered; with `strict`, one couldn't.
        """
        if not requests:
            raise UsageError("no document was named", "conduit ask report.pdf 'What is the total?'")
        policies.create(options.policy, options.policy_options)  # refuse its options before any work
        with ExitStack() as stack:
            opened = self._pages.open(stack, requests)
            results = list(self._pages.ingest(opened, strict=strict))
            pages = [r for r in results if isinstance(r, PageRef)]
            for failed in (r for r in results if isinstance(r, IngestedPage)):
                self.listener.note(f"{failed.document}, page {failed.page} is left out: {failed.notes[0]}")
            if not pages:
                raise InputError("no page of these documents could be rendered")
            with self.store.pin([ref.key for ref in pages]):
                yield Conversation(self, pages, options)

    def answer(
        self,
        pages: Sequence[PageRef],
        turns: Sequence[tuple[str, str]],
        question: str,
        options: AskOptions,
    ) -> Answer:
        """One turn over pages that are ingested: load, serve, decode, report."""
        return self.explained(pages, turns, question, options)[0]

    def explained(
        self,
        pages: Sequence[PageRef],
        turns: Sequence[tuple[str, str]],
        question: str,
        options: AskOptions,
        prompt: Prompt | None = None,
    ) -> tuple[Answer, Prompt, Served]:
        """An answer, and the prompt and pass that it came from.

        Args:
            prompt: of an earlier answer to the same question over the same pages, so that they are not
                loaded again; policy and ratio may differ.
        """
        if not question.strip():
            raise UsageError("there is no question", "conduit ask report.pdf 'What is the total?'")
        started = time.perf_counter()
        prompt, served = self.serve(pages, turns, question, options, prompt)
        ttft = time.perf_counter() - started
        text, generated = self._decode(prompt, served, options)
        served.timings["decode"] = time.perf_counter() - started - ttft
        policy = policies.create(options.policy, options.policy_options)
        visual = len(prompt.visual_slots)
        answer = Answer(
            answer=text,
            question=question,
            model=self.model.name,
            policy=options.policy,
            policy_options=dict(policy.options),
            ratio={"full": 1.0, "reuse": 0.0}.get(options.policy, options.ratio),
            seed=options.seed,
            ttft_s=ttft,
            flops_ratio=served.flops / served.full_flops,
            tokens=TokenCounts(
                visual=visual,
                reused=visual - served.refreshed,
                refreshed=served.refreshed,
                text=len(prompt.text_slots),
                generated=generated,
            ),
            pages=page_shares(pages, prompt, served),
            timings=served.timings,
            finish="length" if generated >= options.max_new_tokens else "stop",
        )
        return answer, prompt, served

    def serve(
        self,
        pages: Sequence[PageRef],
        turns: Sequence[tuple[str, str]],
        question: str,
        options: AskOptions,
        prompt: Prompt | None = None,
    ) -> tuple[Prompt, Served]:
        """Everything up to the first token's logits; `ask` and `inspect` share it.

        Args:
            prompt: the same question over the same pages, laid out already.
        """
        started = time.perf_counter()
        vlm = self.model.vlm
        if prompt is None:
            self.listener.phase("load")
            states = [self._state(ref) for ref in pages]
            prompt = build_prompt(vlm, messages_for(pages, turns, question, options), states)
        check_length(vlm, len(prompt) + options.max_new_tokens, len(pages))
        check_memory(vlm, len(prompt) + options.max_new_tokens)
        loaded = time.perf_counter() - started
        policy = policies.create(options.policy, options.policy_options)
        served = serve(vlm, prompt, policy, options.ratio, room=options.max_new_tokens, on_phase=self.listener.phase)
        served.timings = {"load": loaded, **served.timings}
        return prompt, served

    def _state(self, ref: PageRef) -> PageState:
        """A page's state: from memory, from the store, or prefilled again if its entry is damaged."""
        if ref.fresh is not None:
            return ref.fresh
        entry = self.store.read(ref.key, ref.identity)
        if entry is not None:
            return entry
        self.listener.note(f"{ref.document.name}, page {ref.number} is prefilled again")
        rebuilt = self._pages.rebuild(ref)
        if rebuilt.fresh is not None:
            return rebuilt.fresh
        entry = self.store.read(ref.key, ref.identity)
        if entry is None:
            raise InputError(f"{ref.document.name}, page {ref.number} vanished from the store twice")
        return entry

    def _decode(self, prompt: Prompt, served: Served, options: AskOptions) -> tuple[str, int]:
        """Decode and stream; pieces end on whole characters."""
        self.listener.phase("decode")
        ids: list[int] = []
        shown = ""
        for token in decode(
            self.model.vlm,
            prompt,
            served.cache,
            served.logits,
            max_new_tokens=options.max_new_tokens,
            temperature=options.temperature,
            seed=options.seed,
        ):
            ids.append(token)
            text = self.model.vlm.decode_text(ids)
            if not text.endswith("\ufffd") and text.startswith(shown):
                self.listener.text(text[len(shown) :])
                shown = text
        text = self.model.vlm.decode_text(ids)
        self.listener.text(text[len(shown) :] if text.startswith(shown) else "")
        return text, len(ids)
