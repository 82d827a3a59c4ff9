"""What all families share: the chat template, placeholder expansion, masks, image features."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import torch
from PIL import Image
from torch import Tensor, nn

from conduit_cli.engine import backend
from conduit_cli.engine.prompt import causal_mask
from conduit_cli.engine.vlm import Decoder, EncodedImage, Message, PageState
from conduit_cli.errors import InputError, ModelError, first_line
from conduit_cli.inspection.geometry import TokenGrid

__all__ = ["Family"]

_MAX_ASPECT = 200


class Family:
    """A loaded model behind `engine.vlm.VisionLanguageModel`; subclasses fill in what differs.

    Args:
        model: the stock conditional-generation model, in eval mode.
        tokenizer, image_processor: stock ones, the latter with its PIL backend.
        max_pixels: pixel budget of one page.
    """

    name: str
    decoder: Decoder
    revision: int = 1
    """Of what is stored of a page; raised when `layout` holds more, so that pages stored before are read anew."""
    not_pixels: Sequence[str] = ()
    """Names in the stock processor's output that the stock forward does not take."""

    def __init__(self, model: nn.Module, tokenizer: Any, image_processor: Any, max_pixels: int) -> None:
        self.model = model
        self._describe(model.config, tokenizer, image_processor, max_pixels)
        self.decoder = self.build_decoder()

    @classmethod
    def sketch(cls, config: Any, image_processor: Any, max_pixels: int | None = None) -> Self:
        """The same without weights and tokenizer: it says what a page takes, and runs nothing."""
        family = cls.__new__(cls)
        pixels = max_pixels or cls.default_max_pixels(image_processor)
        family._describe(config, None, image_processor, pixels)
        return family

    def _describe(self, config: Any, tokenizer: Any, image_processor: Any, max_pixels: int) -> None:
        self.config, self.tokenizer, self.image_processor = config, tokenizer, image_processor
        self.max_pixels = max_pixels

    # What a family says of itself

    def build_decoder(self) -> Decoder:
        """The text model and language head: those under `model.model.language_model`, unless it is elsewhere."""
        return Decoder(self.model.model.language_model, self.model.lm_head)  # type: ignore[union-attr,arg-type]

    @staticmethod
    def default_max_pixels(image_processor: Any) -> int:
        """The pixel budget of a page where the user names none."""
        raise NotImplementedError

    def fit(self, width: float, height: float) -> tuple[int, int]:
        """Pixel size at which a vector page of this shape is rendered."""
        scale = math.sqrt(self.max_pixels / (width * height))
        return max(1, int(width * scale)), max(1, int(height * scale))

    def tokens(self, width: int, height: int) -> int:
        """Visual tokens of a picture of this size in pixels."""
        raise NotImplementedError

    def process(self, images: Sequence[Image.Image]) -> dict[str, Any]:
        """The stock processor's output for these images."""
        return dict(self.image_processor(images=[self.shrunk(one) for one in images], return_tensors="pt"))

    def layout(self, image: Image.Image, processed: Mapping[str, Any], tokens: int) -> dict[str, Any]:
        """JSON-ready facts from which `placeholder`, `positions` and `grids` are rebuilt later.

        Args:
            processed: of this one image.
            tokens: how many features the vision tower gave.
        """
        return {"tokens": tokens}

    def placeholder(self, layout: Mapping[str, Any]) -> str:
        """The text that one image's `marker` becomes, visual tokens among it."""
        return self.visual_token * int(layout["tokens"])

    def grids(self, layout: Mapping[str, Any]) -> tuple[TokenGrid, ...]:
        """Where an image's tokens lie on it, the finest grid first; at least one, empty where no place is known."""
        return (TokenGrid("page"),)

    @property
    def extra_width(self) -> int:
        """Numbers that an image's state holds per visual token beside keys, values, norms and embedding."""
        return 0

    def extra_features(self, output: Any) -> dict[str, Tensor]:
        """Family tensors [*, n, *] among the vision tower's output; none by default."""
        return {}

    def positions(self, ids: Tensor, image_of: Tensor, layouts: Sequence[Mapping[str, Any]]) -> Tensor:
        """Rotary positions [1, N]: 0 to N-1, unless the family has others."""
        return torch.arange(len(ids))[None]

    def extras(self, rows: Tensor, image_of: Tensor, states: Sequence[PageState]) -> Mapping[str, Any]:
        """Family keywords of the text model; none by default."""
        return {}

    def masks(self, rows: Tensor, image_of: Tensor) -> Tensor | Mapping[str, Tensor | None] | None:
        """Causal by slot, within the window where layers slide."""
        length, kinds = len(image_of), set(self.decoder.layer_types)
        by_type = {
            kind: causal_mask(rows, length, self.decoder.window if kind == "sliding_attention" else None)
            for kind in kinds
        }
        return by_type if len(by_type) > 1 else by_type[kinds.pop()]

    @property
    def visual_id(self) -> int:
        """The id of one visual token."""
        return int(self.config.image_token_id)

    @property
    def visual_token(self) -> str:
        """The same as text."""
        return str(self.tokenizer.convert_ids_to_tokens(self.visual_id))

    @property
    def marker(self) -> str:
        """What the chat template writes for one image; the visual token, unless the family has another."""
        return self.visual_token

    def pixel_inputs(self, processed: Mapping[str, Any]) -> dict[str, Any]:
        """Of the stock processor's output, what the stock forward takes; on the decoder's device."""
        device = self.decoder.device
        return {
            name: value.to(device) if isinstance(value, Tensor) else value
            for name, value in processed.items()
            if name not in self.not_pixels
        }

    def token_inputs(self, ids: Tensor) -> dict[str, Any]:
        """What the stock forward takes of a prompt's ids [N], besides the pixels."""
        return {"input_ids": ids[None]}

    # What follows from it

    def shrunk(self, image: Image.Image) -> Image.Image:
        """A picture over a budget that the user made smaller, made to fit it; otherwise as it is."""
        if self.max_pixels >= self.default_max_pixels(self.image_processor):
            return image
        scale = math.sqrt(self.max_pixels / (image.width * image.height))
        if scale >= 1:
            return image
        size = max(1, int(image.width * scale)), max(1, int(image.height * scale))
        return image.resize(size, Image.Resampling.LANCZOS)

    def encode_image(self, image: Image.Image) -> EncodedImage:
        """Run the stock processor and the stock vision tower on one image.

        Raises:
            InputError: the picture is too long and thin.
        """
        if max(image.size) > _MAX_ASPECT * min(image.size):
            raise InputError(
                f"the picture is {image.width} x {image.height} pixels, too long and thin to read",
                f"crop it so that one side is at most {_MAX_ASPECT} times the other",
            )
        processed = self.process([image])
        with torch.inference_mode():
            output = self.model.model.get_image_features(**self.pixel_inputs(processed))  # type: ignore[union-attr,operator]
        hidden = self.decoder.geometry.hidden
        features = torch.cat([one.reshape(-1, hidden) for one in output.pooler_output])
        layout = self.layout(image, processed, len(features))
        first, *others = self.grids(layout)
        single = not others and len(first.tokens) == len(features)
        grid = (len(first.rows), len(first.columns)) if single else None
        return EncodedImage(features, self.extra_features(output), layout, grid)

    def tokenize(
        self, messages: Sequence[Message], layouts: Sequence[Mapping[str, Any]], *, generate: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Chat template with placeholders expanded: ids [N] and image index [N] (-1 for text).

        As in the stock processors, placeholders grow in the text, which is then tokenized as a whole.
        """
        try:
            text = self.tokenizer.apply_chat_template(
                [self._without_specials(m) for m in messages], tokenize=False, add_generation_prompt=generate
            )
        except Exception as error:  # a template is a program of the model's authors, and raises what it likes
            told = f"the model's chat template can't make this prompt: {first_line(error)}"
            raise ModelError(told, "try without --system") from error
        pieces = text.split(self.marker)
        if len(pieces) - 1 != len(layouts):
            raise ModelError(f"the model's chat template placed {len(pieces) - 1} of {len(layouts)} images")
        grown = [self.placeholder(layout) for layout in layouts]
        text = pieces[0] + "".join(one + piece for one, piece in zip(grown, pieces[1:], strict=True))
        bos = self.tokenizer.bos_token
        begun = bos is not None and text.startswith(bos)
        ids = torch.tensor(self.tokenizer(text, add_special_tokens=not begun)["input_ids"], dtype=torch.long)
        counts = torch.tensor([one.count(self.visual_token) for one in grown], dtype=torch.long)
        image_of = torch.full_like(ids, -1)
        image_of[ids == self.visual_id] = torch.arange(len(grown)).repeat_interleave(counts)
        return ids, image_of

    @cached_property
    def _specials(self) -> list[str]:
        known = self.tokenizer.added_tokens_decoder.values()
        special = {token.content for token in known if token.special} | {self.marker, self.visual_token}
        return sorted(special, key=len, reverse=True)

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

    def stock_logits(self, ids: Tensor, images: Sequence[Image.Image]) -> Tensor:
        """Logits [vocab] float32 after a prompt's ids [N], by the stock forward over ids and pixels.

        Neither positions, masks, cache nor attention of the engine are in it: what `models check` compares with.
        """
        pixels = self.pixel_inputs(self.process(images))
        with torch.inference_mode(), backend.detached(self.decoder.text_model):
            output = self.model(**self.token_inputs(ids), **pixels, use_cache=False, logits_to_keep=1)
        out: Tensor = output.logits[0, -1].float()
        return out

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
