"""One tiny random configuration per family: the lines of the test matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import transformers

from tests.families.tokenizer import make_tokenizer

__all__ = ["MATRIX", "TEXT", "Tiny", "text_config"]

TEXT: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 320,
    "max_position_embeddings": 4096,
    "initializer_range": 0.12,
    "bos_token_id": None,
    "eos_token_id": 301,
    "pad_token_id": None,
}
_QWEN_VISION = {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64}
_SQUARE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
_MROPE = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}
_QWEN_TOKENS = ("<|image_pad|>", "<|im_end|>", "<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|video_pad|>")

_CONTENT = "{% for c in m.content %}{% if c.type == 'image' %}IMAGE{% else %}{{ c.text }}{% endif %}{% endfor %}"
_IMAGES_FIRST = (
    "{% for c in m.content %}{% if c.type == 'image' %}IMAGE\n{% endif %}{% endfor %}"
    "{% for c in m.content %}{% if c.type == 'text' %}{{ c.text }}{% endif %}{% endfor %}"
)


def _template(turn: str, answer: str, image: str, before: str = "") -> str:
    loop = "{% for m in messages %}" + turn + "{% endfor %}"
    end = "{% if add_generation_prompt %}" + answer + "{% endif %}"
    return before + loop.replace("IMAGE", image) + end


_CHATML = "<|im_start|>{{ m.role }}\n" + _CONTENT + "<|im_end|>\n"
_ASSISTANT = "<|im_start|>assistant\n"


def text_config(kind: str, **changes: Any) -> dict[str, Any]:
    """A tiny text model of a type."""
    return {"model_type": kind, **TEXT, **changes}


@dataclass(frozen=True)
class Tiny:
    """A family's tiny model and what belongs to it.

    Attributes:
        config: arguments of its config class.
        processor: name of its stock processor class, and `processor_options` of its constructor.
        tokens: its special tokens, ids from 300 on; the visual one is first, the end of turn second.
        sizes: three pictures of mixed shapes.
        apart: the stock processor is given several images as separate ones, where it would otherwise drop
            the tiles of images that stand in one prompt (LLaVA-OneVision).
    """

    model_type: str
    config: Mapping[str, Any]
    image_processor: str
    image_options: Mapping[str, Any]
    processor: str
    template: str
    tokens: Sequence[str]
    processor_options: Mapping[str, Any] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    bos: str | None = None
    merges: Sequence[tuple[str, str]] = ()
    sizes: Sequence[tuple[int, int]] = ((140, 112), (112, 168), (196, 84))
    apart: bool = False

    def tokenizer(self) -> Any:
        """Made from the lists above."""
        return make_tokenizer(
            self.tokens, self.template, eos=self.tokens[1], bos=self.bos, named=self.named, merges=self.merges
        )

    def images(self) -> Any:
        """The stock image processor, with its PIL backend."""
        made: Callable[..., Any] = getattr(transformers, self.image_processor)
        return made(**self.image_options)

    def stock_processor(self, folder: Path) -> Any:
        """The stock processor over what was saved; a video processor, which needs torchvision, is left out."""
        stock: Any = getattr(transformers, self.processor)

        class WithoutVideo(stock):  # type: ignore[misc]
            def check_argument_for_proper_class(self, name: str, argument: Any) -> Any:
                return None if name == "video_processor" else super().check_argument_for_proper_class(name, argument)

        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        images = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
        options = dict(self.processor_options)
        if "video_processor" in stock.get_attributes():
            options["video_processor"] = SimpleNamespace(num_frames=1, fps=1, video_sampling=None)
        return WithoutVideo(
            image_processor=images, tokenizer=tokenizer, chat_template=tokenizer.chat_template, **options
        )

    def save(self, folder: Path, dtype: torch.dtype = torch.float32, **changes: Any) -> Path:
        """Random weights, tokenizer and image processor as `from_pretrained` wants them."""
        config = transformers.AutoConfig.for_model(self.model_type, **{**self.config, **changes})
        torch.manual_seed(0)
        model = transformers.AutoModelForImageTextToText.from_config(config, dtype=dtype)
        for weight in model.parameters():
            if weight.ndim > 1 and not weight.any():  # Gemma 3's projection: as zero, all pictures would be alike
                torch.nn.init.normal_(weight, std=0.12)
        model.generation_config.eos_token_id = 301
        model.save_pretrained(folder)
        self.tokenizer().save_pretrained(folder)
        self.images().save_pretrained(folder)
        return folder


def _qwen(model_type: str, processor: str, vision: Mapping[str, Any], patch: int, text: Mapping[str, Any]) -> Tiny:
    ids = {"image_token_id": 300, "vision_start_token_id": 303, "vision_end_token_id": 304, "video_token_id": 305}
    cell = (2 * patch) ** 2
    return Tiny(
        model_type,
        {"text_config": {**TEXT, "rope_parameters": _MROPE, **text}, "vision_config": dict(vision), **ids},
        "Qwen2VLImageProcessorPil",
        {"patch_size": patch, "size": {"shortest_edge": 4 * cell, "longest_edge": 40 * cell}},
        processor,
        _template(_CHATML, _ASSISTANT, "<|vision_start|><|image_pad|><|vision_end|>"),
        _QWEN_TOKENS,
    )


_LLAVA_TURN = "{% if m.role == 'user' %}USER: " + _IMAGES_FIRST + " {% else %}" + _CONTENT + " {% endif %}"
_CLIP = {"model_type": "clip_vision_model", **_SQUARE, "image_size": 28, "patch_size": 7, "projection_dim": 32}
_CLIP_PIXELS = {"size": {"shortest_edge": 28}, "crop_size": {"height": 28, "width": 28}}
_CLIP_TOKENS = {"patch_size": 7, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
_PINPOINTS = [[28, 56], [56, 28], [56, 56], [84, 28], [28, 84]]
_SIGLIP = {"model_type": "siglip_vision_model", **_SQUARE, "image_size": 28, "patch_size": 7, "vision_use_head": False}
_MARKS = ("<fake_token_around_image>", "<global-img>")
_PLACES = tuple(f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5))


def _tiled(model_type: str, image_processor: str, processor: str, named: Mapping[str, str]) -> Tiny:
    turn = "{{ m.role | capitalize }}:" + _CONTENT + "<end_of_utterance>\n"
    return Tiny(
        model_type,
        {
            "text_config": text_config("llama", vocab_size=340),
            "vision_config": {**_SQUARE, "image_size": 32, "patch_size": 8},
            "image_token_id": 300,
            "scale_factor": 2,
        },
        image_processor,
        {"size": {"longest_edge": 96}, "max_image_size": {"longest_edge": 32}},
        processor,
        _template(turn, "Assistant:", "<image>", "<|im_start|>"),
        ("<image>", "<end_of_utterance>", *_MARKS, *_PLACES, "<|im_start|>", "<video>"),
        processor_options={"image_seq_len": 4},
        named=named,
        bos="<|im_start|>",
    )


MATRIX: dict[str, Tiny] = {
    "qwen2_vl": _qwen(
        "qwen2_vl",
        "Qwen2VLProcessor",
        {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2, "patch_size": 14},
        14,
        {},
    ),
    "qwen2_5_vl": _qwen(
        "qwen2_5_vl", "Qwen2_5_VLProcessor", {**_QWEN_VISION, "fullatt_block_indexes": [1], "patch_size": 14}, 14, {}
    ),
    "qwen3_vl": _qwen(
        "qwen3_vl",
        "Qwen3VLProcessor",
        {**_QWEN_VISION, "deepstack_visual_indexes": [0, 1], "patch_size": 16, "num_position_embeddings": 64},
        16,
        {},
    ),
    "llava": Tiny(
        "llava",
        {"text_config": text_config("llama"), "vision_config": _CLIP, "image_token_index": 300},
        "CLIPImageProcessorPil",
        _CLIP_PIXELS,
        "LlavaProcessor",
        _template(_LLAVA_TURN, "ASSISTANT:", "<image>"),
        ("<image>", "</s>"),
        processor_options=_CLIP_TOKENS,
        bos="<s>",
    ),
    "llava_next": Tiny(
        "llava_next",
        {
            "text_config": text_config("mistral", sliding_window=None),
            "vision_config": _CLIP,
            "image_token_index": 300,
            "image_grid_pinpoints": _PINPOINTS,
        },
        "LlavaNextImageProcessorPil",
        {**_CLIP_PIXELS, "image_grid_pinpoints": _PINPOINTS},
        "LlavaNextProcessor",
        _template("[INST] " + _IMAGES_FIRST + " ", "[/INST]", "<image>"),
        ("<image>", "</s>"),
        processor_options=_CLIP_TOKENS,
        bos="<s>",
    ),
    "llava_onevision": Tiny(
        "llava_onevision",
        {
            "text_config": text_config("qwen2", rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
            "vision_config": _SIGLIP,
            "image_token_index": 300,
            "video_token_index": 303,
            "vision_aspect_ratio": "anyres_max_2",
            "image_grid_pinpoints": _PINPOINTS,
        },
        "LlavaOnevisionImageProcessorPil",
        {"size": {"height": 28, "width": 28}, "image_grid_pinpoints": _PINPOINTS},
        "LlavaOnevisionProcessor",
        _template("<|im_start|>{{ m.role }} " + _IMAGES_FIRST + "<|im_end|>\n", _ASSISTANT, "<image>"),
        ("<image>", "<|im_end|>", "<|im_start|>", "<video>"),
        processor_options={
            "num_image_tokens": 16,
            "vision_feature_select_strategy": "full",
            "vision_aspect_ratio": "anyres_max_2",
        },
        apart=True,
    ),
    "internvl": Tiny(
        "internvl",
        {
            "text_config": text_config("qwen2", tie_word_embeddings=False),
            "vision_config": {**_SQUARE, "image_size": [28, 28], "patch_size": [7, 7]},
            "image_token_id": 300,
        },
        "GotOcr2ImageProcessorPil",
        {"size": {"height": 28, "width": 28}, "crop_to_patches": True, "max_patches": 6},
        "InternVLProcessor",
        _template("<|im_start|>{{ m.role }}\n" + _CONTENT + "<|im_end|>\n", _ASSISTANT, "<IMG_CONTEXT>\n"),
        ("<IMG_CONTEXT>", "<|im_end|>", "<|im_start|>", "<img>", "</img>", "<video>"),
        processor_options={"image_seq_length": 4},
        named={
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
    ),
    "idefics3": _tiled("idefics3", "Idefics3ImageProcessorPil", "Idefics3Processor", {}),
    "smolvlm": _tiled(
        "smolvlm",
        "SmolVLMImageProcessorPil",
        "SmolVLMProcessor",
        {"image_token": "<image>", "fake_image_token": _MARKS[0], "global_image_token": _MARKS[1]},
    ),
    "gemma3": Tiny(
        "gemma3",
        {
            "text_config": {
                **TEXT,
                "query_pre_attn_scalar": 16,
                "sliding_window": 24,
                "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
                "rope_parameters": {
                    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                },
            },
            "vision_config": {"model_type": "siglip_vision_model", **_SQUARE, "image_size": 32, "patch_size": 4},
            "mm_tokens_per_image": 16,
            "image_token_index": 300,
            "boi_token_index": 303,
            "eoi_token_index": 304,
        },
        "Gemma3ImageProcessorPil",
        {"size": {"height": 32, "width": 32}},
        "Gemma3Processor",
        _template(
            "<start_of_turn>{{ m.role }}\n" + _CONTENT + "<end_of_turn>\n",
            "<start_of_turn>model\n",
            "<start_of_image>",
            "<bos>",
        ),
        ("<image_soft_token>", "<end_of_turn>", "<start_of_turn>", "<start_of_image>", "<end_of_image>"),
        processor_options={"image_seq_length": 16},
        named={"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"},
        bos="<bos>",
        merges=(("Ċ", "Ċ"), (":", "ĊĊ")),
    ),
}
