"""The figures that the README quotes, printed by `make check`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from conduit_cli import Answer, AskOptions, DocumentRequest, Model, Session, load_model, open_store, policies
from conduit_cli.documents import open_document
from conduit_cli.engine.decode import decode_step
from conduit_cli.engine.pipeline import serve
from conduit_cli.engine.prefill import prefill_page
from conduit_cli.engine.prompt import build_prompt
from tests.engine.stock import Stock, chat

_SAMPLES = Path(__file__).parent.parent.parent / "samples"
_QUESTIONS = [json.loads(line) for line in (_SAMPLES / "questions.jsonl").read_text().splitlines()]


def _say(text: str) -> None:
    print(f"figure: {text}", file=sys.stderr)


@pytest.fixture(scope="module")
def bundled() -> Model:
    return load_model("bundled")


@pytest.fixture(scope="module")
def session(bundled: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with open_store(tmp_path_factory.mktemp("store")) as store:
        yield Session(bundled, store)


@pytest.mark.parametrize("pages", [1, 3, 6])
@pytest.mark.parametrize("prefix", ["", "Below are the pages of a report that was written last year. " * 4])
def test_r_1_equals_full_prefill(bundled: Model, pages: int, prefix: str) -> None:
    """Largest logit difference to the stock model from pixels, at the first token and after 32 more."""
    vlm = bundled.vlm
    with open_document(_SAMPLES / "report.pdf") as document:
        images = [document.render(number, vlm.fit).image for number in range(1, pages + 1)]
    prompt = build_prompt(vlm, chat(pages, prefix=prefix), [prefill_page(vlm, image) for image in images])
    served = serve(vlm, prompt, policies.create("conduit"), 1.0, room=32)
    stock = Stock(vlm)
    first = float((served.logits - stock.logits(prompt, images)).abs().max())
    torch.manual_seed(0)
    tokens = torch.randint(32, 127, (32,)).tolist()
    for step, token in enumerate(tokens):
        logits = decode_step(vlm, prompt, served.cache, token, step)
    later = float((logits - stock.logits(prompt, images, tokens)).abs().max())
    _say(
        f"r = 1, {pages} pages, {len(prompt)} tokens: largest logit difference to stock full prefill "
        f"{first:.1e}, after 32 decoded tokens {later:.1e}"
    )
    assert max(first, later) <= 1e-4


def _ask(session: Session, question: dict[str, object], **options: object) -> Answer:
    request = DocumentRequest(_SAMPLES / str(question["document"]))
    return session.ask([request], str(question["question"]), AskOptions(max_new_tokens=40, **options))  # type: ignore[arg-type]


def test_samples_at_a_tenth(session: Session) -> None:
    """The samples' questions at r = 0.1 against the model's own full prefill."""
    same = right = right_full = 0
    shares = []
    for question in _QUESTIONS:
        full, tenth = _ask(session, question, policy="full"), _ask(session, question, ratio=0.1)
        assert tenth.tokens.refreshed == tenth.tokens.visual // 10
        same += tenth.answer == full.answer
        right += tenth.answer.strip() == question["answer"]
        right_full += full.answer.strip() == question["answer"]
        shares.append(tenth.flops_ratio)
    _say(
        f"{len(_QUESTIONS)} sample questions at r = 0.1: {same} answered as by full prefill, {right} right "
        f"({right_full} with full prefill); FLOPs {min(shares):.1%} to {max(shares):.1%} of full prefill"
    )
    assert same >= 0.7 * len(_QUESTIONS)
    assert right >= right_full - 2


def test_peak_memory(tmp_path: Path) -> None:
    """Serving takes the prompt's K/V, 30 % on top, and what a plain forward of the same rows takes."""
    measured = {}
    for mode in ("prepare", "ask", "stock"):
        command = [sys.executable, "-m", "tests.figures.memory", mode, str(tmp_path / "store")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        measured[mode] = json.loads(done.stdout.splitlines()[-1])
    ask, stock = measured["ask"], measured["stock"]
    share = (ask["peak"] - stock["peak"]) / ask["kv"]
    _say(
        f"peak memory of serving {ask['tokens']} tokens at r = 0.1: {ask['peak'] / 2**20:.0f} MiB over the model, K/V "
        f"{ask['kv'] / 2**20:.0f} MiB, plain forward of the refreshed rows {stock['peak'] / 2**20:.0f} MiB: "
        f"{share:.2f} times K/V on top of it"
    )
    assert share <= 1.3


@pytest.mark.parametrize("codec", ["bf16", "int8"])
def test_what_a_codec_costs(bundled: Model, session: Session, tmp_path: Path, codec: str) -> None:
    """KL of the first answer token to the exact store, and bytes, over the samples' questions at r = 0.1."""
    options = AskOptions(ratio=0.1)
    divergences = []
    with open_store(tmp_path / "store") as store:
        other = Session(bundled, store, codec=codec)
        for question in _QUESTIONS:
            requests = [DocumentRequest(_SAMPLES / question["document"])]
            logits = []
            for one in (session, other):
                with one.conversation(requests, options) as talk:
                    _, served = one.serve(talk.pages, (), question["question"], options)
                logits.append(served.logits.double().log_softmax(-1))
            divergences.append(float((logits[0].exp() * (logits[0] - logits[1])).sum()))
        size = sum(entry.nbytes for entry in store.entries())
        exact = sum(entry.nbytes for entry in session.store.entries())
    _say(
        f"codec {codec}: {size / exact:.0%} of the bytes of an exact float32 page; KL of the first answer token to the "
        f"exact store at r = 0.1: mean {sum(divergences) / len(divergences):.1e}, largest {max(divergences):.1e}"
    )
    assert max(divergences) < 0.05
