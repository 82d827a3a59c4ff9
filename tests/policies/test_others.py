"""Every other policy against its formula, written out naively."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conduit_cli import policies
from conduit_cli.policies.base import LayerPolicy, TokenPolicy
from tests.policies.evidence import evidence, layer_view

SIZES = [7, 9, 4]
TOKEN = [name for name in policies.names() if isinstance(policies.create(name), TokenPolicy)]
LAYER = [name for name in policies.names() if isinstance(policies.create(name), LayerPolicy)]


def token_policy(name: str, **options: object) -> TokenPolicy:
    policy = policies.create(name, options)
    assert isinstance(policy, TokenPolicy)
    return policy


def layer_policy(name: str, **options: object) -> LayerPolicy:
    policy = policies.create(name, options)
    assert isinstance(policy, LayerPolicy)
    return policy


def test_all_are_of_one_kind() -> None:
    assert sorted(TOKEN + LAYER) == sorted(policies.names())
    assert sorted(LAYER) == ["cacheblend", "cacheblend-budgeted", "kvshare", "vlcache"]


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.5, 0.77, 1.0])
@pytest.mark.parametrize("name", TOKEN)
def test_a_token_policy_spends_its_budget_and_no_more(name: str, ratio: float) -> None:
    policy = token_policy(name)
    seen = evidence(5, SIZES, policy.budget(ratio, SIZES), ratio)
    chosen = policy.select(seen).chosen.tolist()
    assert chosen == sorted(set(chosen))
    assert len(chosen) == seen.budget
    if name not in ("reuse", "full"):
        rounding = len(SIZES) if name == "first-k" else 1
        assert math.floor(ratio * 20) <= seen.budget < ratio * 20 + rounding


def test_attention_ranks_by_mean_attention() -> None:
    seen = evidence(6, SIZES, 6)
    means = [sum(float(seen.scored[layer, t]) for layer in range(3)) / 3 for t in range(20)]
    best = sorted(sorted(range(20), key=lambda t: -means[t])[:6])
    assert token_policy("attention").select(seen).chosen.tolist() == best


def test_value_norm_ranks_by_mean_norm_and_needs_no_pass() -> None:
    seen = evidence(7, SIZES, 6)
    means = [sum(float(seen.value_norms[layer, t]) for layer in range(3)) / 3 for t in range(20)]
    best = sorted(sorted(range(20), key=lambda t: -means[t])[:6])
    policy = token_policy("value-norm")
    assert policy.select(seen).chosen.tolist() == best
    assert not policy.needs_scoring


def test_random_is_a_matter_of_its_seed_and_fair() -> None:
    seen = evidence(8, SIZES, 6)
    drawn = [token_policy("random", seed=seed).select(seen).chosen.tolist() for seed in range(400)]
    assert drawn[0] == token_policy("random").select(seen).chosen.tolist()
    counts = [sum(t in some for some in drawn) for t in range(20)]
    assert all(70 < count < 170 for count in counts)  # 120 expected, standard deviation 9


@pytest.mark.parametrize(("options", "taken"), [({}, [1, 1, 1]), ({"k": 5}, [5, 5, 4]), ({"k": 0}, [0, 0, 0])])
def test_first_k_takes_the_beginning_of_every_page(options: dict[str, int], taken: list[int]) -> None:
    policy = token_policy("first-k", **options)
    budget = policy.budget(0.1, SIZES)
    assert budget == sum(taken)
    starts = [0, 7, 16]
    expected = [start + i for start, n in zip(starts, taken, strict=True) for i in range(n)]
    assert policy.select(evidence(9, SIZES, budget, 0.1)).chosen.tolist() == expected


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(LAYER),
    st.decimals(0, 1, places=2).map(float),
    st.integers(1, 3000),
    st.integers(3, 40),
)
def test_a_schedule_never_rises_and_keeps_to_its_budget(name: str, ratio: float, tokens: int, layers: int) -> None:
    counts = layer_policy(name).schedule(ratio, tokens, layers)
    assert len(counts) == layers
    assert all(0 <= after <= before <= tokens for before, after in zip([tokens, *counts], counts, strict=False))
    allowed = ratio * tokens * layers
    if name == "cacheblend":  # its first two layers come on top
        assert counts[2:] == [math.floor(ratio * tokens + 1e-9)] * (layers - 2)
    else:
        assert sum(counts) <= allowed + 1e-6
        if name != "vlcache" and allowed < tokens:
            assert sum(counts) == 0
        else:
            assert sum(counts) > allowed - 2 * layers  # what rounding down leaves
    if ratio == 1:
        assert counts == [tokens] * layers
    if ratio == 0:
        assert counts == [0] * layers


def test_the_shrinking_schedule_is_the_formula() -> None:
    counts = layer_policy("cacheblend-budgeted").schedule(0.3, 1000, 10)
    horizon = 1 / (1 - counts[1] / 1000)
    assert counts == pytest.approx([1000 * max(0, 1 - layer / horizon) for layer in range(10)], abs=8)
    assert counts[0] == 1000
    assert layer_policy("kvshare").schedule(0.3, 1000, 10) == counts


@pytest.mark.parametrize("by", ["values", "keys"])
def test_cacheblend_ranks_by_squared_change(by: str) -> None:
    view = layer_view(3, 1, [0, 2, 5, 6])
    new, old = (view.values, view.stale_values) if by == "values" else (view.keys, view.stale_keys)
    naive = [sum(float(new[h, t, i] - old[h, t, i]) ** 2 for h in range(2) for i in range(4)) for t in range(4)]
    assert layer_policy("cacheblend", by=by).rank(view).tolist() == pytest.approx(naive, rel=1e-4)


def test_cacheblend_budgeted_ranks_by_the_norms_of_both_changes() -> None:
    view = layer_view(4, 2, [1, 2, 3])
    naive = [
        math.dist(view.keys[:, t].flatten().tolist(), view.stale_keys[:, t].flatten().tolist())
        + math.dist(view.values[:, t].flatten().tolist(), view.stale_values[:, t].flatten().tolist())
        for t in range(3)
    ]
    assert layer_policy("cacheblend-budgeted").rank(view).tolist() == pytest.approx(naive, rel=1e-4)


def test_kvshare_ranks_by_attention_times_absolute_change() -> None:
    view = layer_view(5, 2, [1, 2, 3])
    naive = [
        float(view.attention[t])
        * sum(abs(float(view.values[h, t, i] - view.stale_values[h, t, i])) for h in range(2) for i in range(4))
        for t in range(3)
    ]
    policy = layer_policy("kvshare")
    assert policy.rank(view).tolist() == pytest.approx(naive, rel=1e-4)
    assert torch.equal(policy.rank(layer_view(5, 0, [1, 2, 3])), layer_view(5, 0, [1, 2, 3]).attention)


@pytest.mark.parametrize("name", ["vlcache", "cacheblend-budgeted"])
def test_where_nothing_can_have_moved_earlier_tokens_stay(name: str) -> None:
    ranks = layer_policy(name).rank(layer_view(6, 0, [0, 3, 4])).tolist()
    assert ranks == sorted(ranks, reverse=True)
