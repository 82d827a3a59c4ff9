"""The reference: the stock model from the saved folder, called with what the stock processor makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from torch import Tensor

from tests.families.tiny import Tiny

__all__ = ["Stock"]


class Stock:
    """Nothing of Conduit's runs in it: neither prompt, positions, masks nor attention."""

    def __init__(self, tiny: Tiny, folder: Path, dtype: torch.dtype = torch.float32) -> None:
        self.apart = tiny.apart
        self.processor = tiny.stock_processor(folder)
        self.model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=dtype).eval()

    def inputs(self, messages: Sequence[dict[str, Any]], images: Sequence[Image.Image]) -> dict[str, Any]:
        """What `apply_chat_template` of the processor gives for these messages, images filled in."""
        if self.apart and len(images) > 1:
            text = self.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            return dict(self.processor(text=[text], images=list(images), return_tensors="pt"))
        pictures = iter(images)
        filled = [
            {**m, "content": [{**c, "image": next(pictures)} if c["type"] == "image" else c for c in m["content"]]}
            for m in messages
        ]
        return dict(
            self.processor.apply_chat_template(
                filled, tokenize=True, add_generation_prompt=True, return_dict=True, return_tensors="pt"
            )
        )

    def logits(
        self, messages: Sequence[dict[str, Any]], images: Sequence[Image.Image], more: Sequence[int] = ()
    ) -> Tensor:
        """Logits [vocab] after the prompt and `more` generated tokens, from pixels, in one prefill."""
        return self._forward(messages, images, more).logits[0, -1].float()

    def attention(self, messages: Sequence[dict[str, Any]], images: Sequence[Image.Image]) -> Tensor:
        """Attention probabilities [L, H, N, N] of the eager implementation."""
        self.model.set_attn_implementation("eager")
        try:
            output = self._forward(messages, images, (), output_attentions=True)
            return torch.stack([layer[0] for layer in output.attentions])
        finally:
            self.model.set_attn_implementation("sdpa")

    def _forward(
        self, messages: Sequence[dict[str, Any]], images: Sequence[Image.Image], more: Sequence[int], **kwargs: Any
    ) -> Any:
        inputs = self.inputs(messages, images)
        for name, filler in (("input_ids", list(more)), ("attention_mask", [1] * len(more))):
            inputs[name] = torch.cat([inputs[name], torch.tensor([filler], dtype=torch.long)], dim=1)
        for name in ("mm_token_type_ids", "token_type_ids"):
            if name in inputs:
                inputs[name] = torch.nn.functional.pad(inputs[name], (0, len(more)))
        with torch.no_grad():
            return self.model(**inputs, use_cache=False, **kwargs)
