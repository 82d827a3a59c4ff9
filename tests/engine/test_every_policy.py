"""What holds for every policy when the model really runs."""

from __future__ import annotations

import pytest
import torch
from PIL import Image

from conduit_cli import policies
from conduit_cli.engine.decode import decode_step
from conduit_cli.engine.pipeline import serve
from conduit_cli.engine.prefill import prefill_page
from conduit_cli.engine.prompt import Prompt, build_prompt
from conduit_cli.families.base import Family
from conduit_cli.policies.base import LayerPolicy, TokenPolicy
from tests.engine.stock import Stock, chat, text_after


@pytest.fixture(scope="module")
def prompt(tiny: Family, images: list[Image.Image]) -> Prompt:
    """Three pages behind other text than they were prefilled with."""
    messages = chat(3, prefix="Look at these.", system="Be brief.")
    return build_prompt(tiny, messages, [prefill_page(tiny, image) for image in images])


def rows_seen(model: Family, prompt: Prompt, name: str, ratio: float) -> tuple[list[list[int]], tuple[int, ...]]:
    """Per pass, the rows that each layer of the model was really given; and the visual ones as reported.

    Into the last layer the last row alone goes a second time, and through its MLP no other.
    """
    layers = model.decoder.text_model.layers
    seen: list[list[int]] = []

    def note(index: int) -> object:
        def hook(_module: object, args: tuple[torch.Tensor, ...], _kwargs: object) -> None:
            if index == 0:
                seen.append([])
            seen[-1].append(args[0].shape[1])

        return hook

    def note_output(_module: object, args: tuple[torch.Tensor, ...], _kwargs: object) -> None:
        assert args[0].shape[1] == seen[-1].pop() == 1

    served = None
    handles = []
    try:
        for index, layer in enumerate(layers):
            # The engine's own hook is registered later and runs later: look at what the attention is given.
            handles.append(layer.input_layernorm.register_forward_pre_hook(note(index), with_kwargs=True))
        handles.append(layers[-1].mlp.register_forward_pre_hook(note_output, with_kwargs=True))
        served = serve(model, prompt, policies.create(name), ratio)
    finally:
        for handle in handles:
            handle.remove()
    assert served.cache.rows_written == tuple(sum(some[layer] for some in seen) for layer in range(len(layers)))
    return seen, served.rows_per_layer


@pytest.mark.parametrize("name", [name for name in policies.names() if name != "reuse"])
def test_refreshing_everything_is_full_prefill(
    tiny: Family, stock: Stock, images: list[Image.Image], prompt: Prompt, name: str
) -> None:
    served = serve(tiny, prompt, policies.create(name), 1.0, room=4)
    assert (served.logits - stock.logits(prompt, images)).abs().max() <= 1e-4
    assert served.refreshed == len(prompt.visual_slots)
    for step, token in enumerate([40, 41, 42]):
        logits = decode_step(tiny, prompt, served.cache, token, step)
    assert (logits - stock.logits(prompt, images, [40, 41, 42])).abs().max() <= 1e-4


@pytest.mark.parametrize("name", [name for name in policies.names() if name != "full"])
def test_refreshing_nothing_is_plain_reuse(tiny: Family, prompt: Prompt, name: str) -> None:
    served = serve(tiny, prompt, policies.create(name), 0.0)
    reuse = serve(tiny, prompt, policies.create("reuse"), 0.0)
    assert served.refreshed == 0
    torch.testing.assert_close(served.logits, reuse.logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("ratio", [0.1, 0.4, 0.8])
@pytest.mark.parametrize("name", policies.names())
def test_the_rows_that_run_are_the_rows_that_were_planned(
    tiny: Family, prompt: Prompt, name: str, ratio: float
) -> None:
    policy = policies.create(name)
    tokens, layers, text = len(prompt.visual_slots), tiny.decoder.geometry.layers, len(prompt.text_slots)
    seen, reported = rows_seen(tiny, prompt, name, ratio)
    if isinstance(policy, LayerPolicy):
        planned = policy.schedule(ratio, tokens, layers)
        assert seen == [[text + n for n in planned]]
        assert list(reported) == planned
        return
    assert isinstance(policy, TokenPolicy)
    budget = policy.budget(ratio, torch.bincount(prompt.page_of).tolist())
    scoring = [[text] * layers] if policy.needs_scoring else []
    rewritten = text
    if policy.needs_scoring and budget:
        rewritten = len(text_after(prompt, serve(tiny, prompt, policy, ratio).selection.chosen))
    refresh = [[budget + rewritten] * layers] if budget or not policy.needs_scoring else []
    assert seen == scoring + refresh
    assert list(reported) == [budget] * layers


def test_cacheblend_keeps_the_tokens_whose_values_moved_most(tiny: Family, prompt: Prompt) -> None:
    """Up to the check layer everything is exact, so full prefill says how far each value moved."""
    served = serve(tiny, prompt, policies.create("cacheblend"), 0.25)
    fresh = serve(tiny, prompt, policies.create("full"), 1.0).cache.values[1][0][:, prompt.visual_slots]
    stored = torch.cat([state.layer("values", 1) for state in prompt.states], dim=1)
    moved = (fresh - stored).square().sum((0, 2))
    assert served.selection.depth is not None
    deep = (served.selection.depth == 3).nonzero()[:, 0]
    assert set(deep.tolist()) == set(moved.topk(len(prompt.visual_slots) // 4).indices.tolist())


def test_shrinking_sets_are_nested_and_ranked_by_both_changes(tiny: Family, prompt: Prompt) -> None:
    tokens = len(prompt.visual_slots)
    policy = policies.create("cacheblend-budgeted")
    assert isinstance(policy, LayerPolicy)
    _, second, third = policy.schedule(0.8, tokens, 3)
    assert 0 < third < second < tokens
    depth = serve(tiny, prompt, policy, 0.8).selection.depth
    assert depth is not None
    full, stale = serve(tiny, prompt, policies.create("full"), 1.0), serve(tiny, prompt, policies.create("reuse"), 0.0)
    at = prompt.visual_slots[:second]

    def moved(name: str) -> torch.Tensor:
        new, old = getattr(full.cache, name)[1][0][:, at], getattr(stale.cache, name)[1][0][:, at]
        return (new - old).square().sum((0, 2)).sqrt()

    best = (moved("keys") + moved("values")).topk(third).indices
    assert set((depth == 3).nonzero()[:, 0].tolist()) == set(best.tolist())
    assert (depth >= 2).nonzero()[:, 0].tolist() == list(range(second))


def test_kvshare_sees_the_attention_of_all_rows(
    tiny: Family, stock: Stock, images: list[Image.Image], prompt: Prompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through layer 1 all that it sees is exact, so the stock model's eager attention is the reference."""
    policy = policies.create("kvshare")
    assert isinstance(policy, LayerPolicy)
    seen = []
    rank = policy.rank
    monkeypatch.setattr(policy, "rank", lambda view: seen.append(view) or rank(view))
    serve(tiny, prompt, policy, 0.8)
    probabilities = stock.attention(prompt, images)
    naive = probabilities[0][..., prompt.visual_slots].mean((0, 1))
    assert [view.layer for view in seen] == [0, 1]
    torch.testing.assert_close(seen[0].attention, naive, atol=1e-6, rtol=1e-4)


def test_text_between_pages_can_be_left_as_it_was_scored(tiny: Family, prompt: Prompt) -> None:
    served = serve(tiny, prompt, policies.create("conduit", {"between": False}), 0.1)
    whole = serve(tiny, prompt, policies.create("conduit"), 0.1)
    saved = len(text_after(prompt, whole.selection.chosen)) - len(prompt.query_span)
    assert saved > 0
    assert whole.cache.rows_written[0] - served.cache.rows_written[0] == saved
    assert served.selection.chosen.tolist() == whole.selection.chosen.tolist()


@pytest.mark.parametrize("span", [1, 3])
def test_a_shorter_query_span_asks_the_last_tokens(
    tiny: Family, stock: Stock, images: list[Image.Image], span: int
) -> None:
    from conduit_cli.engine.prefill import BUILD_CONTEXT

    messages = [{**BUILD_CONTEXT[0], "content": [{"type": "image"}, {"type": "text", "text": "Which one?"}]}]
    prompt = build_prompt(tiny, messages, [prefill_page(tiny, images[1])])
    served = serve(tiny, prompt, policies.create("conduit", {"span": span}), 0.1)
    naive = stock.attention(prompt, images[1:2])[:, :, -span:][..., prompt.visual_slots].mean((1, 2))
    assert served.attention is not None
    torch.testing.assert_close(served.attention, naive, atol=1e-6, rtol=1e-4)
