"""The layout of one prompt: its tokens, where its visual tokens stand, and their positions.

A *slot* is a token's index in the prompt; a *position* is what rotary embedding sees. With M-RoPE
an image of h x w tokens advances positions by max(h, w) only, so the two are kept apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from conduit_cli.engine.vlm import Message, PageState, VisionLanguageModel

__all__ = ["Prompt", "build_prompt", "causal_mask"]


@dataclass(frozen=True)
class Prompt:
    """A prompt of N tokens with K images.

    Attributes:
        ids: [N] token ids, placeholders expanded.
        image_of: [N] index of the image that a token belongs to, -1 for text.
        positions: [P, N] rotary positions of the whole prompt, P = 1 or 3.
        states: the K images' stored states, in prompt order.
    """

    ids: Tensor
    image_of: Tensor
    positions: Tensor
    states: tuple[PageState, ...]

    def __len__(self) -> int:
        return int(self.ids.shape[0])

    @cached_property
    def visual_slots(self) -> Tensor:
        """[N_vis] slots of all visual tokens, in prompt order."""
        return (self.image_of >= 0).nonzero()[:, 0]

    @cached_property
    def text_slots(self) -> Tensor:
        """[N_text] slots of all text tokens."""
        return (self.image_of < 0).nonzero()[:, 0]

    @cached_property
    def page_of(self) -> Tensor:
        """[N_vis] image index of each visual token."""
        return self.image_of[self.visual_slots]

    @cached_property
    def query_span(self) -> Tensor:
        """[Q] slots of the text after the last image (METHOD.md section 1)."""
        last = int(self.visual_slots[-1]) if len(self.visual_slots) else -1
        return torch.arange(last + 1, len(self), device=self.ids.device)

    def slots_of(self, image: int) -> Tensor:
        """Slots of one image's tokens, in reading order."""
        return (self.image_of == image).nonzero()[:, 0]

    @property
    def next_position(self) -> int:
        """Rotary position of the first decoded token."""
        return int(self.positions.max()) + 1


def build_prompt(model: VisionLanguageModel, messages: Sequence[Message], states: Sequence[PageState]) -> Prompt:
    """Lay out a chat whose images are the given stored pages, ready to generate.

    Raises:
        ValueError: a stored page has another number of tokens than its placeholders.
    """
    layouts: list[Any] = [state.meta["layout"] for state in states]
    ids, image_of = model.tokenize(messages, layouts)
    for image, state in enumerate(states):
        expected, stored = int((image_of == image).sum()), int(state.meta["tokens"])
        if expected != stored:
            raise ValueError(f"image {image} takes {expected} tokens here, but {stored} are stored")
    positions = model.positions(ids, image_of, layouts)
    device = model.decoder.device
    return Prompt(ids.to(device), image_of.to(device), positions.to(device), tuple(states))


def causal_mask(rows: Tensor, length: int, window: int | None = None) -> Tensor | None:
    """Bool mask [1, 1, R, N] for rows at slots [R]: a row sees every slot up to its own.

    None where one row sees all N slots, so that attention may take its faster unmasked path.

    Args:
        window: of these, only the last so many (a sliding layer).
    """
    if rows.shape[0] == 1 and int(rows[0]) == length - 1 and (window is None or length <= window):
        return None
    keys = torch.arange(length, device=rows.device)
    mask = keys[None] <= rows[:, None]
    if window is not None:
        mask &= keys[None] > rows[:, None] - window
    return mask[None, None]
