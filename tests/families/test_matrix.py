"""What holds for every family, against the stock model and processor (METHOD.md section 6)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from conduit_cli import policies
from conduit_cli.engine.decode import decode_step
from conduit_cli.engine.pipeline import serve
from conduit_cli.engine.place import place
from conduit_cli.engine.prefill import BUILD_CONTEXT
from conduit_cli.engine.prompt import build_prompt
from conduit_cli.errors import ModelError
from tests.engine.stock import chat, text_after
from tests.families.conftest import Case

PREFIXES: dict[str, dict[str, str]] = {
    "short": {},
    "long": {
        "system": "You read reports and say what they say.",
        "prefix": "Two things to know first, and to keep in mind: ",
    },
}


def _alone(question: str) -> list[dict[str, Any]]:
    """The build context, with a question behind it."""
    return [{"role": "user", "content": [*BUILD_CONTEXT[0]["content"], {"type": "text", "text": question}]}]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("order", [[0], [0, 1, 2], [2, 0, 1]], ids=["one", "three", "moved"])
def test_refreshing_everything_is_full_prefill(case: Case, order: list[int], prefix: str) -> None:
    messages = chat(len(order), **PREFIXES[prefix])
    images = [case.images[i] for i in order]
    prompt = build_prompt(case.vlm, messages, [case.pages[i] for i in order])
    assert prompt.ids.tolist() == case.stock.inputs(messages, images)["input_ids"][0].tolist()
    served = serve(case.vlm, prompt, policies.create("conduit"), 1.0)
    assert (served.logits - case.stock.logits(messages, images)).abs().max() <= 1e-4
    assert served.refreshed == len(prompt.visual_slots)


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 2, 0], [2, 1, 0]], ids=["first", "last", "other"])
def test_what_is_stored_knows_no_position(case: Case, order: list[int]) -> None:
    """A token's keys in the first layer depend on itself and its position alone: placed, they are the computed ones."""
    prompt = build_prompt(case.vlm, chat(3, prefix="First of all: "), [case.pages[i] for i in order])
    placed = case.vlm.decoder.new_cache(len(prompt))
    place(case.vlm.decoder, prompt, placed)
    computed = serve(case.vlm, prompt, policies.create("full"), 1.0).cache
    at = prompt.visual_slots
    torch.testing.assert_close(placed.keys[0][0][:, at], computed.keys[0][0][:, at], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(placed.values[0][0][:, at], computed.values[0][0][:, at], atol=1e-5, rtol=1e-5)


def test_policies_that_drop_rows_between_layers_are_exact_too(case: Case) -> None:
    prompt = build_prompt(case.vlm, chat(3), case.pages)
    policy = policies.create("cacheblend-budgeted")
    if case.vlm.extra_width:  # what is added between layers is for the rows that there were at first
        with pytest.raises(ModelError, match="drops rows between layers"):
            serve(case.vlm, prompt, policy, 0.5)
        return
    assert (serve(case.vlm, prompt, policy, 1.0).logits - case.stock.logits(chat(3), case.images)).abs().max() <= 1e-4
    assert serve(case.vlm, prompt, policy, 0.5).rows_per_layer[-1] < len(prompt.visual_slots)


def test_after_16_decoded_tokens_the_logits_are_still_those_of_full_prefill(case: Case) -> None:
    prompt = build_prompt(case.vlm, chat(3), case.pages)
    served = serve(case.vlm, prompt, policies.create("conduit"), 1.0, room=16)
    tokens = [(37 * step) % 250 for step in range(16)]
    for step, token in enumerate(tokens):
        logits = decode_step(case.vlm, prompt, served.cache, token, step)
    assert (logits - case.stock.logits(chat(3), case.images, tokens)).abs().max() <= 1e-4


@pytest.mark.parametrize("page", [0, 2])
def test_one_page_under_its_own_prefix_needs_no_refresh(case: Case, page: int) -> None:
    prompt = build_prompt(case.vlm, _alone("Who?"), [case.pages[page]])
    served = serve(case.vlm, prompt, policies.create("reuse"), 0.0)
    assert served.refreshed == 0
    assert (served.logits - case.stock.logits(_alone("Who?"), [case.images[page]])).abs().max() <= 1e-4


def test_what_is_not_refreshed_is_stale(case: Case) -> None:
    """Were nothing stale, the other tests would prove nothing."""
    messages = chat(3, prefix="Look.")
    prompt = build_prompt(case.vlm, messages, case.pages)
    reference = case.stock.logits(messages, case.images)
    stale = serve(case.vlm, prompt, policies.create("reuse"), 0.0).logits
    most = serve(case.vlm, prompt, policies.create("conduit"), 0.95).logits
    assert (stale - reference).norm() > 1e-2
    assert (most - reference).norm() < (stale - reference).norm()


@pytest.mark.parametrize("ratio", [0, 0.1, 0.5])
def test_exactly_the_budget_is_recomputed(case: Case, ratio: float) -> None:
    prompt = build_prompt(case.vlm, chat(3), case.pages)
    served = serve(case.vlm, prompt, policies.create("conduit"), ratio)
    budget = int(ratio * 10) * len(prompt.visual_slots) // 10
    assert served.refreshed == budget
    refresh = budget + len(text_after(prompt, served.selection.chosen)) if budget else 0
    assert set(served.cache.rows_written) == {len(prompt.text_slots) + refresh}


def test_recorded_attention_is_the_softmax_that_eager_attention_materialises(case: Case) -> None:
    messages = _alone("Which one is it?")
    prompt = build_prompt(case.vlm, messages, case.pages[1:2])
    served = serve(case.vlm, prompt, policies.create("conduit"), 0.1)
    probabilities = case.stock.attention(messages, case.images[1:2])
    naive = probabilities[:, :, prompt.query_span][..., prompt.visual_slots].mean((1, 2))
    assert served.attention is not None
    assert served.attention.shape == (case.vlm.decoder.geometry.layers, len(prompt.visual_slots))
    torch.testing.assert_close(served.attention, naive, atol=1e-6, rtol=1e-4)


def test_token_counts_are_known_from_the_size_alone(case: Case) -> None:
    sketch = type(case.vlm).sketch(case.vlm.config, case.vlm.image_processor)
    assert [sketch.tokens(*image.size) for image in case.images] == [page.meta["tokens"] for page in case.pages]


def test_text_that_spells_an_image_is_text(case: Case) -> None:
    spelled = f"What does {case.vlm.marker} or {case.vlm.visual_token} mean?"
    _, image_of = case.vlm.tokenize(_alone(spelled), [case.pages[0].meta["layout"]])
    assert int((image_of >= 0).sum()) == case.pages[0].meta["tokens"]
