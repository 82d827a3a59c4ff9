"""An answer opened up: the same pass that `ask` makes, with every number that it was decided by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from PIL import Image
from torch import Tensor

from conduit_cli.engine.pipeline import Served
from conduit_cli.engine.prompt import Prompt
from conduit_cli.inspection.geometry import drawn_size
from conduit_cli.inspection.model import Inspection, PageView, Versus, rounded
from conduit_cli.policies.base import budget_of, top_k
from conduit_cli.reports import Answer
from conduit_cli.session.conversation import Conversation
from conduit_cli.session.labels import labels
from conduit_cli.session.shares import overlap_of

__all__ = ["inspect_question", "page_picture"]

_COMPARED = ("full", "reuse")


def inspect_question(
    conversation: Conversation, question: str, *, compare: bool = False, versus: str | None = None
) -> Inspection:
    """Answer one question of a conversation without earlier turns, and keep what the selection was made from.

    Args:
        compare: also answer by full prefill and by plain reuse.
        versus: name of a policy, with its own defaults, whose selection is laid beside this one.

    Raises:
        UsageError: no question, or no such policy.
        InputError: the prompt is too long.
    """
    session, pages, options = conversation.session, conversation.pages, conversation.options

    def answered(policy: str) -> tuple[Answer, Served]:
        other, _, passed = session.explained(
            pages, [], question, replace(options, policy=policy, policy_options={}), prompt
        )
        return other, passed

    answer, prompt, served = session.explained(pages, [], question, options)
    second = answered(versus) if versus is not None else None
    there = (options.policy, versus)
    compared = tuple(answered(name)[0] for name in _COMPARED if name not in there) if compare else ()
    fixed = _fixed_because(answer, served)
    views = _views(conversation, answer, prompt, served, ranked=fixed is None)
    if second is None:
        return Inspection(answer, views, len(served.norms), fixed, compared)
    mine, theirs = served.selection.chosen, second[1].selection.chosen
    views = tuple(
        replace(view, versus=share.refreshed, overlap=overlap_of(view.share.refreshed, share.refreshed))
        for view, share in zip(views, second[0].pages, strict=True)
    )
    overlap = overlap_of(mine.tolist(), theirs.tolist())
    return Inspection(answer, views, len(served.norms), fixed, compared, Versus(second[0], overlap))


def page_picture(conversation: Conversation, inspection: Inspection, index: int, longest: int) -> Image.Image:
    """Page `index` of an inspection, in its own shape, and sharper than the model saw it.

    Args:
        conversation: the one that was inspected, its documents still open.
        longest: pixels of the longer side at which a PDF page is drawn; a picture comes at its own size.

    Raises:
        PageError: the page can't be drawn any more.
    """
    ref, grid = conversation.pages[index], inspection.pages[index].grids[0]
    return ref.document.render(ref.number, lambda width, height: drawn_size(width, height, grid, longest)).image


def _views(
    conversation: Conversation, answer: Answer, prompt: Prompt, served: Served, *, ranked: bool
) -> tuple[PageView, ...]:
    """One view per page; what runs over all tokens is computed once."""
    selection = served.selection
    attention = None if served.attention is None else served.attention.mean(0)
    depth = selection.depth
    scores = selection.scores if depth is None else None  # a layer policy has no one ranking
    ranks = _ranks(scores) if ranked and scores is not None else None
    layers = None if served.attention is None else served.attention / served.attention.sum(1, keepdim=True)
    take = _taker(prompt)
    vlm = conversation.session.model.vlm
    names = labels([(ref.document.path, ref.document.name) for ref in conversation.pages])
    views = []
    for image, share in enumerate(answer.pages):
        own = take(image)
        views.append(
            PageView(
                share=share,
                label=names[image],
                grids=vlm.grids(prompt.states[image].meta["layout"]),
                mean_attention=None if attention is None else rounded([float(attention[own].mean())])[0],
                scores=None if scores is None else rounded(scores[own].tolist()),
                ranks=None if ranks is None else tuple(ranks[own].tolist()),
                attention_of_tokens=None if attention is None else rounded(attention[own].tolist()),
                value_norms=rounded(served.norms.mean(0)[own].tolist()),
                depth=None if depth is None else tuple(int(n) for n in depth[own].tolist()),
                layer_attention=None if layers is None else rounded(layers[:, own].sum(1).tolist()),
            )
        )
    return tuple(views)


def _taker(prompt: Prompt) -> Callable[[int], Tensor]:
    """Indices into the prompt's visual tokens of one page."""
    page_of = prompt.page_of
    return lambda image: (page_of == image).nonzero()[:, 0]


def _ranks(scores: Tensor) -> Tensor:
    """Place [N] of each token in the engine's own order (`policies.base.top_k`)."""
    order = torch.sort(scores, descending=True, stable=True).indices
    ranks = torch.empty_like(order)
    ranks[order] = torch.arange(len(order), device=order.device)
    return ranks


def _fixed_because(answer: Answer, served: Served) -> str | None:
    """Why the set at another ratio isn't the first floor(r*N) of the ranking; None where it is."""
    selection = served.selection
    if selection.depth is not None:
        return f"{answer.policy} chooses anew in every layer: another ratio needs another run"
    if selection.scores is None:
        return f"{answer.policy} ranks no tokens by a score: another ratio needs another run"
    budget = budget_of(answer.ratio, len(selection.scores))
    if not torch.equal(top_k(selection.scores, budget), selection.chosen):
        return f"{answer.policy} does not take the best of one ranking: another ratio needs another run"
    return None
