"""Intervals and tests on data whose answer is known."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from conduit_cli.bench.stats import Clusters, sign_flip_test, spearman


def _singles(n: int, seed: int = 0) -> Clusters:
    return Clusters(list(range(n)), seed=seed)


def test_the_interval_of_a_mean_is_that_of_theory() -> None:
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    low, high = _singles(400).interval(values)
    half = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.04)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(2)
    hits = 0
    for trial in range(200):
        low, high = _singles(60, trial).interval(rng.binomial(1, 0.7, 60))
        hits += low <= 0.7 <= high
    assert 176 <= hits <= 199


def test_the_same_seed_gives_the_same_interval_and_another_one_another() -> None:
    values = np.arange(30) % 7
    assert _singles(30, 5).interval(values) == _singles(30, 5).interval(values)
    assert _singles(30, 5).interval(values) != _singles(30, 6).interval(values)


def test_questions_of_one_cluster_count_as_one_draw() -> None:
    """Ten copies of a value tell no more than one: the interval stays as wide."""
    values = np.random.default_rng(3).normal(size=40)
    one = _singles(40).interval(values)
    copied = Clusters([i // 10 for i in range(400)]).interval(np.repeat(values, 10))
    alone = _singles(400).interval(np.repeat(values, 10))
    assert copied == pytest.approx(one)
    assert alone[1] - alone[0] < 0.5 * (one[1] - one[0])


def test_a_ratio_of_equal_columns_is_one_without_spread() -> None:
    values = np.array([0, 1, 1, 0, 1, 1.0])
    assert _singles(6).ratio_interval(values, values) == (1.0, 1.0)


def test_a_missing_value_is_left_out() -> None:
    assert _singles(4).interval([2.0, float("nan"), 2.0, 2.0]) == (2.0, 2.0)


def test_the_median_interval_is_that_of_resampled_medians() -> None:
    values = np.random.default_rng(4).lognormal(size=101)
    low, high = _singles(101).median_interval(values)
    rng = np.random.default_rng(9)
    naive = np.quantile([np.median(rng.choice(values, 101)) for _ in range(2000)], [0.025, 0.975])
    assert low <= np.median(values) <= high
    assert (low, high) == pytest.approx(tuple(naive), rel=0.1)


def test_few_differences_are_tested_exactly() -> None:
    differences = [0.4, -0.1, 0.3, 0.2, 0.6]
    sums = [abs(sum(s * d for s, d in zip(signs, differences, strict=True))) for signs in product([1, -1], repeat=5)]
    expected = sum(s >= sum(differences) - 1e-9 for s in sums) / len(sums)
    assert sign_flip_test(differences, [0.0] * 5, _singles(5)) == pytest.approx(expected)


def test_a_clear_difference_is_seen_and_none_is_not() -> None:
    rng = np.random.default_rng(7)
    base = rng.normal(size=200)
    assert sign_flip_test(base + 0.5 + rng.normal(0, 1, 200), base, _singles(200)) < 0.001
    assert sign_flip_test(base, base, _singles(200)) == 1.0


def test_without_a_difference_p_is_uniform() -> None:
    rng = np.random.default_rng(8)
    found = [sign_flip_test(rng.normal(size=30), rng.normal(size=30), _singles(30), flips=500) for _ in range(200)]
    assert 2 <= sum(p <= 0.05 for p in found) <= 22
    assert 0.4 <= float(np.mean(found)) <= 0.6


def test_the_order_of_the_two_does_not_matter() -> None:
    rng = np.random.default_rng(11)
    a, b = rng.normal(size=40), rng.normal(size=40)
    assert sign_flip_test(a, b, _singles(40)) == sign_flip_test(b, a, _singles(40))


def test_rank_correlation() -> None:
    assert spearman([1, 2, 3, 4], [10, 100, 1000, 10000]) == pytest.approx(1)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 2, 2, 3], [1, 3, 2, 4]) == pytest.approx(0.9486833)  # ties share their mean rank
    assert np.isnan(spearman([1, 1, 1], [1, 2, 3]))
