"""What cells of one question share changes no figure: each is as if it had been served alone."""

from __future__ import annotations

import pytest
import torch
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode

from conduit_cli import policies
from conduit_cli.bench.asking import CountedState, bytes_read
from conduit_cli.bench.contenders import cells, parse_policies
from conduit_cli.bench.forced import forced_logits, greedy_answer
from conduit_cli.bench.shared import Common, SharedSteps
from conduit_cli.engine.backend import PromptCache
from conduit_cli.engine.decode import append, decode
from conduit_cli.engine.pipeline import Served, serve
from conduit_cli.engine.prefill import prefill_page
from conduit_cli.engine.prompt import Prompt, build_prompt
from conduit_cli.families.base import Family
from tests.engine.conftest import images, stock, tiny
from tests.engine.stock import chat

__all__ = ["images", "stock", "tiny"]

_ROOM = 8
_TYPED = [",".join(policies.names()), "conduit:lambda=0;conduit:span=2;conduit:between=false;vlcache:profile=flat"]


@pytest.fixture(scope="module")
def prompt(tiny: Family, images: list[Image.Image]) -> Prompt:
    """Three pages behind other text than they were prefilled with, whose reads are counted."""
    pages = [CountedState(prefill_page(tiny, image)) for image in images]
    return build_prompt(tiny, chat(3, prefix="Look at these.", system="Be brief."), pages)


def _alone(model: Family, prompt: Prompt, name: str, options: object, ratio: float) -> tuple[Served, int, int]:
    before = bytes_read(prompt)
    with FlopCounterMode(display=False) as counter:
        served = serve(model, prompt, policies.create(name, options), ratio, room=_ROOM)
    return served, counter.get_total_flops(), bytes_read(prompt) - before


def test_a_cell_among_others_is_as_it_is_alone(tiny: Family, prompt: Prompt) -> None:
    """In cells that come later, most steps are looked up; answers of earlier ones were written meanwhile."""
    common = Common(count=True)
    reached: dict[object, torch.Tensor] = {}
    for cell in cells(parse_policies(_TYPED), [0, 0.1, 0.4, 1]):
        name, options = cell.contender.name, cell.contender.options
        alone, counted, nbytes = _alone(tiny, prompt, name, options, cell.ratio)
        steps = SharedSteps(tiny, prompt, common, room=_ROOM)
        shared = serve(tiny, prompt, policies.create(name, options), cell.ratio, steps=steps)
        assert torch.equal(shared.logits, alone.logits), cell.key
        assert torch.equal(shared.selection.chosen, alone.selection.chosen)
        assert shared.rows_per_layer == alone.rows_per_layer
        assert (shared.flops, steps.counted, steps.nbytes) == (alone.flops, counted, nbytes)
        ids = [11, 45, 7]
        forced = forced_logits(tiny, prompt, alone, ids)
        if steps.path not in reached:
            reached[steps.path] = forced_logits(tiny, prompt, shared, ids)
        assert torch.equal(reached[steps.path], forced), cell.key
    assert len(reached) < len(common.taken) < 2 * len(reached)


def test_full_prefill_is_computed_once(tiny: Family, prompt: Prompt) -> None:
    common = Common()
    paths = set()
    for name in policies.names():
        steps = SharedSteps(tiny, prompt, common, room=0)
        serve(tiny, prompt, policies.create(name), 1.0, steps=steps)
        paths.add(steps.path)
    # after a scoring pass the text before the first page is not computed again; reuse refreshes nothing
    assert len(paths) == 3
    assert sum(step == "refresh" for _, step in common.taken) == 2


@pytest.mark.parametrize("limit", [1, 3, _ROOM])
def test_guesses_change_no_answer(tiny: Family, prompt: Prompt, limit: int) -> None:
    served = serve(tiny, prompt, policies.create("conduit"), 0.4, room=_ROOM)
    told = list(decode(tiny, prompt, served.cache, served.logits, max_new_tokens=limit))
    wrong = [(token + 1) % 250 for token in told]
    for guesses in ([], [told], [wrong], [wrong, told[:1] + wrong[1:]], [[*told[:2], *wrong[2:]]], [told * 3]):
        for known in (0, min(1, len(told) - 1)):
            logits = served.logits
            if known:
                logits = append(tiny, prompt, served.cache, told[:known])[-1]
            assert greedy_answer(tiny, prompt, served.cache, told[:known], logits, guesses, limit) == told


def test_an_answer_that_stops_is_not_guessed_on(tiny: Family, prompt: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve(tiny, prompt, policies.create("conduit"), 0.4, room=_ROOM)
    told = list(decode(tiny, prompt, served.cache, served.logits, max_new_tokens=_ROOM))
    monkeypatch.setattr(type(tiny), "stop_ids", frozenset(told[-1:]))
    before = told[: told.index(told[-1])]
    assert before, "the answer would stop at once"
    assert greedy_answer(tiny, prompt, served.cache, [], served.logits, [told], _ROOM) == before


def test_a_copy_of_a_cache_is_its_own(tiny: Family, prompt: Prompt) -> None:
    cache: PromptCache = serve(tiny, prompt, policies.create("reuse"), 0.0, room=_ROOM).cache
    copy = cache.copy()
    assert copy.rows_written == cache.rows_written and copy.length == cache.length == len(prompt)
    before = [keys.clone() for keys in cache.keys]
    append(tiny, prompt, copy, [3, 4])
    assert all(torch.equal(a, b) for a, b in zip(before, cache.keys, strict=True))
    assert cache.length == len(prompt)
