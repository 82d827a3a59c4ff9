"""CONDUIT's selection against its formula, written out naively."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conduit_cli import policies
from conduit_cli.errors import UsageError
from conduit_cli.policies.base import Evidence, budget_of
from tests.policies.evidence import evidence as made_up


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**16),
    st.lists(st.integers(1, 12), min_size=1, max_size=5),
    st.sampled_from([0.0, 0.25, 1.0]),
    st.booleans(),
    st.sampled_from(["attention", "score"]),
    st.floats(0, 1),
)
def test_selection_is_the_formula(
    seed: int, sizes: list[int], lambda_: float, norm: bool, source: str, share: float
) -> None:
    total = sum(sizes)
    evidence = made_up(seed, sizes, int(share * total))
    policy = policies.create("conduit", {"lambda": lambda_, "norm": norm, "coefficient": source})
    selection = policy.select(evidence)
    assert evidence.attention is not None

    attention = [sum(float(evidence.attention[layer, t]) for layer in range(3)) / 3 for t in range(total)]
    score = [
        sum(float(evidence.attention[l, t]) * (float(evidence.value_norms[l, t]) if norm else 1) for l in range(3)) / 3  # noqa: E741
        for t in range(total)
    ]
    base = attention if source == "attention" else score
    g = [sum(base[t] for t in range(total) if evidence.page_of[t] == j) / sizes[j] for j in range(len(sizes))]
    c = [(1 - lambda_) + lambda_ * g[j] / (sum(g) / len(g)) for j in range(len(g))]
    final = [score[t] * c[int(evidence.page_of[t])] for t in range(total)]
    assert selection.coefficients is not None
    assert selection.scores is not None
    assert selection.coefficients.tolist() == pytest.approx(c, rel=1e-4)
    assert selection.scores.tolist() == pytest.approx(final, rel=1e-4)
    chosen = selection.chosen.tolist()
    assert chosen == sorted(set(chosen))
    assert len(chosen) == evidence.budget
    rest = [final[t] for t in range(total) if t not in chosen]
    if chosen and rest:
        assert min(final[t] for t in chosen) >= max(rest) * (1 - 1e-4)


@pytest.mark.parametrize(
    ("layers", "taken"), [("0", [0]), ("1-2", [1, 2]), ("0,2", [0, 2]), ("upper", [1, 2]), ("all", [0, 1, 2])]
)
def test_means_go_over_the_layers_that_are_named(layers: str, taken: list[int]) -> None:
    seen = made_up(4, [6, 5], 3)
    selection = policies.create("conduit", {"layers": layers}).select(seen)
    whole = policies.create("conduit").select(
        Evidence(seen.page_of, seen.value_norms[taken], seen.scored[taken], seen.ratio, seen.budget)
    )
    assert selection.chosen.tolist() == whole.chosen.tolist()
    assert selection.scores is not None
    assert whole.scores is not None
    torch.testing.assert_close(selection.scores, whole.scores)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**16), st.integers(1, 7), st.sampled_from([0.0, 0.5, 1.0]), st.booleans())
def test_upper_is_the_formula_over_the_upper_half(seed: int, layers: int, lambda_: float, norm: bool) -> None:
    seen = made_up(seed, [6, 5, 4], 5, layers=layers)
    selection = policies.create("conduit-upper", {"lambda": lambda_, "norm": norm}).select(seen)
    upper = range(layers // 2, layers)
    attention = [sum(float(seen.scored[i, t]) for i in upper) / len(upper) for t in range(15)]
    weight = [[float(seen.value_norms[i, t]) if norm else 1.0 for i in range(layers)] for t in range(15)]
    score = [sum(float(seen.scored[i, t]) * weight[t][i] for i in upper) / len(upper) for t in range(15)]
    means = [sum(attention[:6]) / 6, sum(attention[6:11]) / 5, sum(attention[11:]) / 4]
    c = [(1 - lambda_) + lambda_ * g / (sum(means) / 3) for g in means]
    assert selection.scores is not None
    assert selection.scores.tolist() == pytest.approx(
        [s * c[int(seen.page_of[t])] for t, s in enumerate(score)], rel=1e-4
    )
    assert len(selection.chosen) == 5


@pytest.mark.parametrize("layers", ["3", "first", "", "2-1", "-1", "²", "0-99999999999"])
def test_layers_that_are_none_are_usage_errors(layers: str) -> None:
    with pytest.raises(UsageError):
        policies.create("conduit", {"layers": layers}).select(made_up(4, [6, 5], 3))


def test_one_page_has_coefficient_one() -> None:
    selection = policies.create("conduit").select(made_up(3, [8], 2))
    assert selection.coefficients is not None
    assert selection.coefficients.tolist() == pytest.approx([1.0])


@given(st.decimals(0, 1, places=3), st.integers(0, 100_000))
def test_budget_is_the_floor_of_the_decimal_that_was_typed(ratio: object, tokens: int) -> None:
    assert budget_of(float(str(ratio)), tokens) == math.floor(Fraction(str(ratio)) * tokens)


def test_a_budget_that_binary_fractions_get_wrong() -> None:
    assert budget_of(0.29, 100) == 29  # int(0.29 * 100) is 28


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("guess", {}),
        ("conduit", {"lambda": 2}),
        ("conduit", {"depth": 3}),
        ("conduit", {"coefficient": "x"}),
        ("conduit", {"span": 0}),
        ("conduit", {"norm": "False"}),
        ("conduit", {"between": 0}),
        ("random", {"seed": -1}),
        ("random", {"seed": 2**70}),
        ("first-k", {"k": 1.5}),
        ("cacheblend", {"by": "norms"}),
        ("cacheblend", {"check": "one"}),
        ("cacheblend", {"check": 0}),
        ("vlcache", {"profile": "steep"}),
        ("full", {"k": 1}),
        ("reuse", {"lambda": 1}),
    ],
)
def test_unknown_policies_and_options_are_usage_errors(name: str, options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        policies.create(name, options)
