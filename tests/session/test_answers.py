"""Answers through the library: each page its own, each call independent of the one before."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conduit_cli import AskOptions, Model, Session, UsageError, open_store
from conduit_cli.errors import InputError
from conduit_store import Store
from tests.session.conftest import Ear, MakePdf, request

PAGES = [["Total: 4711"], ["Total: 93"], ["Total: 618"]]


def test_the_answer_follows_the_page(session: Session, pdf: MakePdf) -> None:
    path = pdf(PAGES)
    for page, lines in enumerate(PAGES, 1):
        answer = session.ask(request(path, str(page)), "What is the total?", AskOptions())
        assert answer.answer.strip() == lines[0].removeprefix("Total: ")
        assert [share.page for share in answer.pages] == [page]


def test_interleaved_questions_equal_those_of_fresh_sessions(model: Model, store: Store, pdf: MakePdf) -> None:
    """No state of one call (positions, masks, recorders) reaches the next."""
    path = pdf(PAGES)
    cases = [("1", "What is the total?", 0.1), ("2-3", "What is the total on page 3?", 0.5), ("1-3", "Who?", 0.0)]
    one = Session(model, store)
    fresh = {
        case: Session(model, store).ask(request(path, case[0]), case[1], AskOptions(ratio=case[2])) for case in cases
    }
    for case in [*cases, *cases[::-1]]:
        again = one.ask(request(path, case[0]), case[1], AskOptions(ratio=case[2]))
        assert again.answer == fresh[case].answer
        assert again.pages[0].refreshed == fresh[case].pages[0].refreshed


def test_threads_that_share_a_model_do_not_meet(model: Model, store: Store, pdf: MakePdf) -> None:
    """One thread's forward is not seen by another's recorder, nor narrowed by its hooks, nor in its new page."""
    path, others = pdf(PAGES), [pdf([[f"Code: {n}"]], name=f"{n}.pdf") for n in range(4)]
    session = Session(model, store)

    def ask(case: tuple[Path, str, str, float]) -> tuple[str, list[tuple[int, ...]]]:
        document, policy, question, ratio = case
        answer = session.ask(request(document), question, AskOptions(policy=policy, ratio=ratio))
        return answer.answer, [tuple(page.refreshed) for page in answer.pages]

    cases = [
        (path, policy, f"What is the total on page {page}?", 0.3)
        for policy in ("conduit", "attention", "vlcache")
        for page in (1, 2, 3)
    ]
    cases += [(other, "conduit", "What is the code?", 0.3) for other in others]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(ask, cases))
    with open_store(store.path.parent / "other") as fresh:
        session = Session(model, fresh)
        assert together == [ask(case) for case in cases]


def test_counts_and_shares_add_up(session: Session, pdf: MakePdf) -> None:
    answer = session.ask(request(pdf(PAGES)), "What is the total on page 2?", AskOptions(ratio=0.25))
    assert answer.tokens.visual == 288
    assert answer.tokens.refreshed == 72 == sum(len(page.refreshed) for page in answer.pages)
    assert answer.tokens.reused == 216
    assert sum(page.budget_share for page in answer.pages) == pytest.approx(1)
    assert sum(page.attention or 0 for page in answer.pages) == pytest.approx(1)
    assert sum(page.coefficient or 0 for page in answer.pages) == pytest.approx(3)
    assert all(0 <= cell < page.tokens for page in answer.pages for cell in page.refreshed)


def test_streamed_pieces_make_the_answer(session: Session, pdf: MakePdf, ear: Ear) -> None:
    answer = session.ask(request(pdf(PAGES)), "What is the total on page 1?", AskOptions())
    assert ear.said == answer.answer


def test_a_seed_repeats_a_sample(session: Session, pdf: MakePdf) -> None:
    path = pdf(PAGES)
    options = AskOptions(temperature=2.0, seed=11, max_new_tokens=12)
    first, second = (session.ask(request(path), "What is the total?", options).answer for _ in range(2))
    assert first == second


def test_a_conversation_sees_its_earlier_turns(session: Session, pdf: MakePdf) -> None:
    with session.conversation(request(pdf(PAGES[:1])), AskOptions()) as talk:
        first = talk.ask("What is the total?")
        second = talk.ask("What is the total?", ratio=1.0)
    assert second.ratio == 1.0
    assert second.tokens.text > first.tokens.text + len(first.answer)
    assert second.tokens.refreshed == second.tokens.visual


def test_a_question_that_spells_a_special_token_is_text(session: Session, pdf: MakePdf) -> None:
    answer = session.ask(request(pdf(PAGES[:1])), "What is <|image_pad|><|im_end|> the total?", AskOptions())
    assert answer.tokens.visual == 96


def test_a_damaged_entry_is_rebuilt_and_the_answer_given(
    session: Session, store: Store, pdf: MakePdf, ear: Ear
) -> None:
    path = pdf(PAGES[:1])
    before = session.ask(request(path), "What is the total?", AskOptions(ratio=0.5))
    (file,) = store.path.rglob("*.safetensors")
    data = bytearray(file.read_bytes())
    for offset in random.Random(0).sample(range(len(data) // 2, len(data)), 20):
        data[offset] ^= 0x40
    file.write_bytes(bytes(data))
    after = session.ask(request(path), "What is the total?", AskOptions(ratio=0.5))
    assert after.answer == before.answer
    assert any("again" in note for note in ear.notes)
    assert all(verdict.verdict == "ok" for verdict in store.verify())


def test_more_pages_than_the_model_reads_is_refused(session: Session, pdf: MakePdf) -> None:
    path = pdf([[f"Total: {n}"] for n in range(90)])
    with pytest.raises(InputError, match="8192"):
        session.ask(request(path), "What is the total?", AskOptions())


@pytest.mark.parametrize(
    "options", [{"ratio": -0.1}, {"ratio": 1.5}, {"ratio": float("nan")}, {"policy": "x"}, {"max_new_tokens": 0}]
)
def test_options_outside_their_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        AskOptions(**options)  # type: ignore[arg-type]


def test_no_question_is_refused(session: Session, pdf: MakePdf, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        session.ask(request(pdf(PAGES)), "  ", AskOptions())
