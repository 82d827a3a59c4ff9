"""What all families share: the chat template, placeholder expansion, causal masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from conduit_cli.engine.prompt import causal_mask
from conduit_cli.engine.vlm import Decoder, EncodedImage, Message, PageState

__all__ = ["Family"]


class Family:
    """A loaded model behind `engine.vlm.VisionLanguageModel`; subclasses fill in what differs.

    Args:
        model: the stock conditional-generation model, in eval mode.
        tokenizer, image_processor: stock ones, the latter with its PIL backend.
        max_pixels: pixel budget of one page.
    """

    name: str
    decoder: Decoder

    def __init__(self, model: nn.Module, tokenizer: Any, image_processor: Any, max_pixels: int) -> None:
        self.model, self.tokenizer, self.image_processor = model, tokenizer, image_processor
        self.max_pixels = max_pixels
        self.config: Any = model.config
        self.decoder = self.build_decoder()
        self._specials = sorted(tokenizer.get_added_vocab(), key=len, reverse=True)

    # What a family says of itself

    def build_decoder(self) -> Decoder:
        """The text model and language head."""
        raise NotImplementedError

    @staticmethod
    def default_max_pixels(image_processor: Any) -> int:
        """The pixel budget of a page where the user names none."""
        raise NotImplementedError

    def fit(self, width: float, height: float) -> tuple[int, int]:
        """Pixel size at which a vector page of this shape is rendered."""
        raise NotImplementedError

    def encode_image(self, image: Image.Image) -> EncodedImage:
        """Run processor and vision tower on one image."""
        raise NotImplementedError

    def placeholder(self, layout: Mapping[str, Any]) -> list[int]:
        """The ids that one image's placeholder becomes; visual ones are `visual_id`."""
        raise NotImplementedError

    def positions(self, ids: Tensor, image_of: Tensor, layouts: Sequence[Mapping[str, Any]]) -> Tensor:
        """Rotary positions [1, N]: 0 to N-1, unless the family has others."""
        return torch.arange(len(ids))[None]

    def extras(self, rows: Tensor, image_of: Tensor, states: Sequence[PageState]) -> Mapping[str, Any]:
        """Family keywords of the text model; none by default."""
        return {}

    def masks(self, rows: Tensor, image_of: Tensor) -> Tensor | Mapping[str, Tensor] | None:
        """Causal by slot."""
        return causal_mask(rows, len(image_of))

    @property
    def visual_id(self) -> int:
        """The id of one visual token."""
        return int(self.config.image_token_id)

    # What follows from it

    def tokenize(
        self, messages: Sequence[Message], layouts: Sequence[Mapping[str, Any]], *, generate: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Chat template with placeholders expanded: ids [N] and image index [N] (-1 for text)."""
        text = self.tokenizer.apply_chat_template(
            [self._without_specials(m) for m in messages], tokenize=False, add_generation_prompt=generate
        )
        ids: list[int] = []
        owner: list[int] = []
        image = 0
        for token in self.tokenizer(text, add_special_tokens=False)["input_ids"]:
            if token != self.visual_id:
                ids.append(token)
                owner.append(-1)
                continue
            expanded = self.placeholder(layouts[image])
            ids += expanded
            owner += [image if one == self.visual_id else -1 for one in expanded]
            image += 1
        if image != len(layouts):
            raise ValueError(f"the chat template placed {image} of {len(layouts)} images")
        return torch.tensor(ids), torch.tensor(owner)

    def _without_specials(self, message: Message) -> dict[str, Any]:
        """A question that spells a special token is text, not an image or the end of a turn."""

        def plain(text: str) -> str:
            for special in self._specials:
                if special in text and len(special) > 1:
                    text = text.replace(special, f"{special[0]} {special[1:]}")
            return text

        content = message["content"]
        if isinstance(content, str):
            return {**message, "content": plain(content)}
        return {**message, "content": [{**c, "text": plain(c["text"])} if "text" in c else c for c in content]}

    def decode_text(self, ids: Sequence[int]) -> str:
        """Text of generated ids, special tokens left out."""
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    @property
    def stop_ids(self) -> frozenset[int]:
        """Ids that end an answer: the generation config's, else the tokenizer's."""
        generation = getattr(self.model, "generation_config", None)
        eos = getattr(generation, "eos_token_id", None)
        if eos is None:
            eos = self.tokenizer.eos_token_id
        return frozenset([eos] if isinstance(eos, int) else eos or [])
