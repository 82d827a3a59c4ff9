"""Everything numerical is held against the stock transformers forward (METHOD.md section 6)."""

from __future__ import annotations

import pytest
import torch
from PIL import Image

from conduit_cli import policies
from conduit_cli.engine.decode import decode_step
from conduit_cli.engine.pipeline import serve
from conduit_cli.engine.prefill import BUILD_CONTEXT, prefill_page
from conduit_cli.engine.prompt import build_prompt
from conduit_cli.families.base import Family
from tests.engine.stock import Stock, chat, text_after

PREFIXES = {
    "short": {},
    "long": {"system": "You read reports and say what they say.", "prefix": "Two things to know first. " * 12},
}


@pytest.mark.parametrize("policy", ["conduit", "full"])
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("pages", [1, 3])
def test_refreshing_everything_is_full_prefill(
    tiny: Family, stock: Stock, images: list[Image.Image], pages: int, prefix: str, policy: str
) -> None:
    chosen = images[:pages]
    prompt = build_prompt(tiny, chat(pages, **PREFIXES[prefix]), [prefill_page(tiny, i) for i in chosen])
    served = serve(tiny, prompt, policies.create(policy), 1.0)
    assert (served.logits - stock.logits(prompt, chosen)).abs().max() <= 1e-4
    assert served.refreshed == len(prompt.visual_slots)


def test_after_32_decoded_tokens_the_logits_are_still_those_of_full_prefill(
    tiny: Family, stock: Stock, images: list[Image.Image]
) -> None:
    prompt = build_prompt(tiny, chat(3), [prefill_page(tiny, image) for image in images])
    served = serve(tiny, prompt, policies.create("conduit"), 1.0, room=32)
    torch.manual_seed(2)
    tokens = torch.randint(0, 250, (32,)).tolist()
    for step, token in enumerate(tokens):
        logits = decode_step(tiny, prompt, served.cache, token, step)
    assert (logits - stock.logits(prompt, images, tokens)).abs().max() <= 1e-4


def test_positions_are_not_slots_with_m_rope(tiny: Family, images: list[Image.Image]) -> None:
    prompt = build_prompt(tiny, chat(1), [prefill_page(tiny, images[0])])
    assert prompt.positions.shape[0] == 3
    assert prompt.next_position < len(prompt)


def test_one_page_under_its_own_prefix_needs_no_refresh(tiny: Family, stock: Stock, images: list[Image.Image]) -> None:
    messages = [{**BUILD_CONTEXT[0], "content": [{"type": "image"}, {"type": "text", "text": "Who?"}]}]
    prompt = build_prompt(tiny, messages, [prefill_page(tiny, images[0])])
    served = serve(tiny, prompt, policies.create("reuse"), 0.0)
    assert served.refreshed == 0
    assert (served.logits - stock.logits(prompt, images[:1])).abs().max() <= 1e-4


def test_reuse_under_another_prefix_differs_and_refresh_brings_it_back(
    tiny: Family, stock: Stock, images: list[Image.Image]
) -> None:
    """Were nothing stale, the other tests would prove nothing."""
    prompt = build_prompt(tiny, chat(3, prefix="Look."), [prefill_page(tiny, image) for image in images])
    reference = stock.logits(prompt, images)

    def error(ratio: float) -> float:
        return float((serve(tiny, prompt, policies.create("conduit"), ratio).logits - reference).norm())

    assert error(0.0) > 1e-2
    assert error(0.5) < error(0.0)
    assert error(0.97) < error(0.5)
    assert error(1.0) < 1e-3


def test_the_same_entry_serves_at_any_offset(tiny: Family, stock: Stock, images: list[Image.Image]) -> None:
    states = [prefill_page(tiny, image) for image in images]
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        moved = [images[i] for i in order]
        prompt = build_prompt(tiny, chat(3), [states[i] for i in order])
        served = serve(tiny, prompt, policies.create("conduit"), 1.0)
        assert (served.logits - stock.logits(prompt, moved)).abs().max() <= 1e-4


@pytest.mark.parametrize("ratio", [0, 0.05, 0.1, 0.29, 0.5, 1])
def test_exactly_the_budget_is_recomputed(
    tiny: Family, images: list[Image.Image], ratio: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted from the rows that reach the model's first layer, not from what was planned."""
    prompt = build_prompt(tiny, chat(3), [prefill_page(tiny, image) for image in images])
    policy = policies.create("conduit")
    seen: list[int] = []
    layer = tiny.decoder.text_model.layers[0]
    handle = layer.register_forward_pre_hook(lambda _m, args, kwargs: seen.append(args[0].shape[1]), with_kwargs=True)
    served = serve(tiny, prompt, policy, ratio)
    handle.remove()
    budget = int(ratio * 100) * len(prompt.visual_slots) // 100
    assert served.refreshed == budget == policy.budget(ratio, [len(prompt.visual_slots)])
    refresh = [budget + len(text_after(prompt, served.selection.chosen))] if budget else []
    assert seen == [len(prompt.text_slots), *refresh]
    assert served.cache.rows_written[0] == sum(seen)


def test_recorded_attention_is_the_softmax_over_all_earlier_keys(
    tiny: Family, stock: Stock, images: list[Image.Image]
) -> None:
    """Under the build prefix the cache is not stale, so the eager stock attention is the reference."""
    messages = [{**BUILD_CONTEXT[0], "content": [{"type": "image"}, {"type": "text", "text": "Which one?"}]}]
    prompt = build_prompt(tiny, messages, [prefill_page(tiny, images[1])])
    served = serve(tiny, prompt, policies.create("conduit"), 0.1)
    probabilities = stock.attention(prompt, images[1:2])
    naive = probabilities[:, :, prompt.query_span][..., prompt.visual_slots].mean((1, 2))
    assert served.attention is not None
    torch.testing.assert_close(served.attention, naive, atol=1e-6, rtol=1e-4)


def test_value_norms_are_over_all_kv_heads(tiny: Family, images: list[Image.Image]) -> None:
    page = prefill_page(tiny, images[0])
    layers, _heads, tokens, _d = page.tensors["values"].shape
    naive = page.tensors["values"].permute(0, 2, 1, 3).reshape(layers, tokens, -1).norm(dim=-1)
    torch.testing.assert_close(page.tensors["value_norms"], naive)
