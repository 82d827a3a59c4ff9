"""The reference: a plain prefill and a plain decode through the stock model."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor

from conduit_cli.engine.prompt import Prompt
from conduit_cli.families.base import Family

__all__ = ["Stock", "chat", "text_after"]


class Stock:
    """The same weights behind transformers' own forward; nothing of Conduit's runs in it."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.model = copy.deepcopy(family.model)
        self.model.set_attn_implementation("sdpa")

    def logits(
        self, prompt: Prompt, images: Sequence[Image.Image], more: Sequence[int] = (), *, eager: bool = False
    ) -> Tensor:
        """Logits [vocab] after the prompt and `more` generated tokens, from pixels, in one prefill."""
        return self._forward(prompt, images, more).logits[0, -1].float()

    def attention(self, prompt: Prompt, images: Sequence[Image.Image]) -> Tensor:
        """Attention probabilities [L, H, N, N] of the eager implementation."""
        self.model.set_attn_implementation("eager")
        try:
            out = self._forward(prompt, images, (), output_attentions=True)
        finally:
            self.model.set_attn_implementation("sdpa")
        return torch.stack([layer[0] for layer in out.attentions])

    def _forward(self, prompt: Prompt, images: Sequence[Image.Image], more: Sequence[int], **kwargs: bool) -> object:
        inputs = self.family.image_processor(
            images=list(images),
            size={"shortest_edge": 3136, "longest_edge": self.family.max_pixels},
            return_tensors="pt",
        )
        ids = torch.cat([prompt.ids, torch.tensor(list(more), dtype=prompt.ids.dtype)])[None]
        kinds = (ids == self.family.visual_id).int()
        with torch.no_grad():
            return self.model(input_ids=ids, mm_token_type_ids=kinds, use_cache=False, **inputs, **kwargs)


def chat(pages: int, question: str = "What is the total?", prefix: str = "", system: str | None = None) -> list[dict]:
    """Messages with labelled images, text before them and a question after them."""
    content: list[dict] = [{"type": "text", "text": prefix}] if prefix else []
    for number in range(1, pages + 1):
        content += [{"type": "text", "text": f"Page {number}:"}, {"type": "image"}]
    messages = [{"role": "user", "content": [*content, {"type": "text", "text": question}]}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": [{"type": "text", "text": system}]})
    return messages


def text_after(prompt: Prompt, chosen: Tensor) -> Tensor:
    """Slots of the text behind the first of the chosen visual tokens [k]: what a refresh changes."""
    return prompt.text_slots[prompt.text_slots > prompt.visual_slots[chosen[0]]]
