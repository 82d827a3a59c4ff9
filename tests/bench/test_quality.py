"""Scores against references written from their definitions, and forced answers against the stock model."""

from __future__ import annotations

import functools
import math
import random

import pytest
import torch
from PIL import Image

from conduit_cli import policies
from conduit_cli.bench.forced import forced_logits
from conduit_cli.bench.quality import anls, edit_distance, exact_match, kl_divergence, negative_log_likelihood
from conduit_cli.engine.decode import decode
from conduit_cli.engine.pipeline import serve
from conduit_cli.engine.prefill import prefill_page
from conduit_cli.engine.prompt import build_prompt
from conduit_cli.families.base import Family
from tests.engine.conftest import images, stock, tiny
from tests.engine.stock import Stock, chat

__all__ = ["images", "stock", "tiny"]


def _naive_distance(a: str, b: str) -> int:
    @functools.cache
    def rest(i: int, j: int) -> int:
        if i == len(a) or j == len(b):
            return len(a) - i + len(b) - j
        return min(rest(i + 1, j) + 1, rest(i, j + 1) + 1, rest(i + 1, j + 1) + (a[i] != b[j]))

    return rest(0, 0)


def test_edit_distance_is_the_recursive_one() -> None:
    r = random.Random(0)
    for _ in range(300):
        a, b = ("".join(r.choice("abc") for _ in range(r.randrange(8))) for _ in range(2))
        assert edit_distance(a, b) == _naive_distance(a, b)


@pytest.mark.parametrize(
    ("answer", "accepted", "expected"),
    [
        ("4711", ["4711"], 1.0),
        (" Novak  LTD. ", ["novak ltd"], 1.0),
        ("$518", ["$519"], 0.75),
        ("12", ["34", "13"], 0.5),
        ("abc", ["xyz"], 0.0),
        ("abcd", ["abxyzu"], 0.0),  # 1 - 4/6 is below one half
        ("", ["a"], 0.0),
        ("a", [], 0.0),
    ],
)
def test_anls(answer: str, accepted: list[str], expected: float) -> None:
    assert anls(answer, accepted) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("answer", "accepted", "expected"),
    [
        ("Oslo", ["oslo"], 1),
        ("Oslo.", ["Oslo"], 1),
        ("12  Jan\n2026", ["12 Jan 2026"], 1),
        ("x", ["y", "X"], 1),
        ("1.5", ["15"], 0),
        ("Oslo!", ["Oslo"], 0),
    ],
)
def test_exact_match(answer: str, accepted: list[str], expected: float) -> None:
    assert exact_match(answer, accepted) == expected


def test_kl_is_the_sum_over_the_vocabulary() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        a, b = 3 * torch.randn(7, generator=generator), 3 * torch.randn(7, generator=generator)
        p = [math.exp(x) for x in a.tolist()]
        q = [math.exp(x) for x in b.tolist()]
        p, q = [x / sum(p) for x in p], [x / sum(q) for x in q]
        naive = sum(x * math.log(x / y) for x, y in zip(p, q, strict=True))
        assert kl_divergence(a, b) == pytest.approx(naive, abs=1e-6)
    assert kl_divergence(a, a + 5) == pytest.approx(0, abs=1e-9)


def test_the_forced_answer_is_what_the_stock_model_thinks_of_it(
    tiny: Family, stock: Stock, images: list[Image.Image]
) -> None:
    """Every step's logits, and with them the likelihood, in one pass over a refreshed cache."""
    ids = [11, 45, 7, 23, 60]
    prompt = build_prompt(tiny, chat(3, prefix="Read this."), [prefill_page(tiny, image) for image in images])
    served = serve(tiny, prompt, policies.create("conduit"), 1.0, room=len(ids))
    logits = forced_logits(tiny, prompt, served, ids)
    steps = torch.stack([stock.logits(prompt, images, ids[:step]) for step in range(len(ids) + 1)])
    assert (logits - steps).abs().max() <= 1e-4
    naive = -sum(float(steps[i].double().log_softmax(-1)[token]) for i, token in enumerate(ids)) / len(ids)
    assert negative_log_likelihood(logits[:-1], torch.tensor(ids)) == pytest.approx(naive, abs=1e-4)


def test_decoding_after_a_forced_answer_is_as_if_there_had_been_none(tiny: Family, images: list[Image.Image]) -> None:
    prompt = build_prompt(tiny, chat(2), [prefill_page(tiny, image) for image in images[:2]])
    answers = []
    for forced in ([], [5, 9, 31, 44]):
        served = serve(tiny, prompt, policies.create("conduit"), 0.3, room=8)
        forced_logits(tiny, prompt, served, forced)
        answers.append(list(decode(tiny, prompt, served.cache, served.logits, max_new_tokens=8)))
    assert answers[0] == answers[1]
