"""What `inspect` shows is what `ask` did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conduit_cli import AskOptions, DocumentRequest, Session
from conduit_cli.inspection.model import Inspection
from tests.cli.conftest import Conduit
from tests.inspection.conftest import QUESTION, Inspect

PER_TOKEN = ("scores", "ranks", "attention_of_tokens", "value_norms")


def _below(inspection: Inspection, budget: int) -> list[list[int]]:
    """Positions that the ranking buys with a budget, page by page."""
    return [[t for t, rank in enumerate(page.ranks or ()) if rank < budget] for page in inspection.pages]


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.37, 1.0])
@pytest.mark.parametrize("policy", ["conduit", "reuse", "full"])
def test_the_set_shown_is_the_set_that_ask_refreshed(
    inspect: Inspect, session: Session, samples: Path, policy: str, ratio: float
) -> None:
    inspection = inspect(ratio, policy, pages="1-3")
    options = AskOptions(ratio=ratio, policy=policy, max_new_tokens=24)
    asked = session.ask([DocumentRequest(samples / "report.pdf", "1-3")], QUESTION, options)
    assert [page.share.refreshed for page in inspection.pages] == [page.refreshed for page in asked.pages]
    assert inspection.answer.answer == asked.answer
    if policy == "conduit":
        assert _below(inspection, asked.tokens.refreshed) == [list(page.refreshed) for page in asked.pages]


def test_the_ranking_gives_every_other_ratio(inspect: Inspect, session: Session, samples: Path) -> None:
    inspection = inspect(0.1, pages="1-4")
    for ratio in (0.003, 0.05, 0.29, 0.8):
        asked = session.ask(
            [DocumentRequest(samples / "report.pdf", "1-4")], QUESTION, AskOptions(ratio=ratio, max_new_tokens=1)
        )
        assert _below(inspection, asked.tokens.refreshed) == [list(page.refreshed) for page in asked.pages]


def test_coefficients_follow_from_the_mean_attention(inspect: Inspect) -> None:
    inspection = inspect(pages="1-3")
    g = [page.mean_attention or 0.0 for page in inspection.pages]
    for page, own in zip(inspection.pages, g, strict=True):
        assert page.share.coefficient == pytest.approx(own * len(g) / sum(g), rel=1e-3)
        assert own == pytest.approx(sum(page.attention_of_tokens or ()) / page.share.tokens, rel=1e-3)
    by_layer = zip(*(page.layer_attention or () for page in inspection.pages), strict=True)
    shares = [sum(layer) for layer in by_layer]
    assert len(shares) == inspection.layers
    assert shares == pytest.approx([1.0] * inspection.layers, rel=1e-3)


@pytest.mark.parametrize(("policy", "layers"), [("reuse", ("attention", "value norm")), ("full", ("value norm",))])
def test_policies_without_a_ranking_say_so(inspect: Inspect, policy: str, layers: tuple[str, ...]) -> None:
    inspection = inspect(policy=policy, pages="1-2")
    assert inspection.fixed_because is not None
    assert policy in inspection.fixed_because
    assert all(page.ranks is None and page.scores is None for page in inspection.pages)
    assert inspection.layer_names == layers


def test_overlap_is_counted_per_page_and_in_all(inspect: Inspect) -> None:
    inspection = inspect(pages="1-2", versus="full")
    assert inspection.versus is not None
    for page in inspection.pages:
        assert page.versus == tuple(range(page.share.tokens))
        assert page.overlap == pytest.approx(len(page.share.refreshed) / page.share.tokens)
    assert inspection.versus.overlap == pytest.approx(
        inspection.answer.tokens.refreshed / inspection.answer.tokens.visual
    )
    assert all(page.overlap == 1 for page in inspect(ratio=0, pages="1-2", versus="reuse").pages)


def test_comparison_gives_the_answers_of_ask(inspect: Inspect, session: Session, samples: Path) -> None:
    compared = inspect(pages="1-2", compare=True).compared
    request = [DocumentRequest(samples / "report.pdf", "1-2")]
    for answer in compared:
        alone = session.ask(request, QUESTION, AskOptions(policy=answer.policy, max_new_tokens=24))
        assert (answer.answer, answer.tokens) == (alone.answer, alone.tokens)
    assert [answer.policy for answer in compared] == ["full", "reuse"]


def test_json_has_the_model_in_full(conduit: Conduit, samples: Path) -> None:
    words = (samples / "report.pdf", QUESTION, "--pages", "1-2", "--json", "-q")
    shown = json.loads(conduit("inspect", *words, "--versus", "reuse", "--compare").out)
    asked = json.loads(conduit("ask", *words).out)
    assert set(asked) <= set(shown)
    assert shown["answer"] == asked["answer"]
    for page, plain in zip(shown["pages"], asked["pages"], strict=True):
        assert plain["refreshed"] == page["refreshed"]
        assert set(plain) <= set(page)
        assert all(len(page[name]) == page["tokens"] for name in PER_TOKEN)
        (grid,) = page["grids"]
        assert [len(grid["rows"]), len(grid["columns"])] == page["grid"]
        assert (grid["name"], grid["tokens"]) == ("page", list(range(page["tokens"])))
        assert (grid["rows"][0][0], grid["columns"][-1][1]) == (0, 1)
        assert len(page["layer_attention"]) == shown["layers"]
        assert page["overlap"] == 0
    assert shown["versus"]["policy"] == "reuse"
    assert [other["policy"] for other in shown["compared"]] == ["full"]
