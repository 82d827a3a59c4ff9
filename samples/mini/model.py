"""The reader: a small `Qwen2_5_VLForConditionalGeneration` and its byte-level tokenizer."""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
# Phrases of prompts that are one token each; they never occur in a label or a value. Everything else is bytes.
PHRASES = [
    "system\n",
    "user\n",
    "assistant\n",
    "What is the ",
    "What is ",
    "What was the ",
    "How much is the ",
    "Tell me the ",
    "Give the ",
    "Find the ",
    "Read page ",
    "Read the page.",
    "Question: ",
    "Answer the question.",
    "Answer it now.",
    " on page ",
    " in ",
    " for ",
    "Page ",
    "not on these pages",
    "You are a helpful assistant.",
    "Answer from the pages.",
    "Read the document and answer.",
    "Be brief.",
    "You read reports.",
    "Use only what the pages say.",
    "Here are the pages.\n",
    "Look at this document.\n",
    "Read carefully.\n",
    "Document follows.\n",
]
VOCABULARY = 320
HIDDEN = 256
# The three axes (time, row, column) take turns over the frequencies. With Qwen's three blocks the columns
# would only get the lowest ones, which turn by 0.003 a cell at most: too little to find a table's column.
SECTIONS = [1, 1, 1] * 10 + [0, 1, 1]
PIXELS = 336 * 224  # larger pages are scaled down to 96 visual tokens: what most of the training saw
TEXTS = (
    "{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endif %}"
)
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}<|im_start|>system\n" + TEXTS + "<|im_end|>\n"
    "{% else %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}"
    "{% if c.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c.text }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PREPROCESSOR: dict[str, Any] = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2_5_VLProcessor",
    "patch_size": 14,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
    "do_convert_rgb": True,
    "image_mean": [0.5] * 3,
    "image_std": [0.5] * 3,
    "min_pixels": 28 * 28 * 4,
    "max_pixels": PIXELS,
    "size": {"shortest_edge": 28 * 28 * 4, "longest_edge": PIXELS},
    "rescale_factor": 1 / 255,
    "resample": 3,
}


def tokenizer() -> PreTrainedTokenizerFast:
    """Bytes, special tokens and phrases; no merges, so that every character can be copied from a page."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    core.add_tokens([AddedToken(s, special=False, normalized=False) for s in PHRASES])
    made = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=SPECIAL[3:],
        clean_up_tokenization_spaces=False,
        model_max_length=8192,
    )
    made.chat_template = TEMPLATE
    return made


def config(tok: PreTrainedTokenizerFast) -> Qwen2_5_VLConfig:
    """About 8.8 M parameters: 18 MB in bf16."""
    special: dict[str, int] = {name: tok.convert_tokens_to_ids(name) for name in SPECIAL}
    text = {
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": 512,
        "num_hidden_layers": 10,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": SECTIONS},
        "use_sliding_window": False,
        "attention_dropout": 0.0,
        "pad_token_id": special["<|endoftext|>"],
        "bos_token_id": None,
        "eos_token_id": special["<|im_end|>"],
    }
    vision = {
        "depth": 4,
        "hidden_size": 192,
        "intermediate_size": 512,
        "num_heads": 3,
        "out_hidden_size": HIDDEN,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "window_size": 112,
        "fullatt_block_indexes": [2],
        "in_channels": 3,
        "hidden_act": "silu",
    }
    return Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=special["<|image_pad|>"],
        video_token_id=special["<|video_pad|>"],
        vision_start_token_id=special["<|vision_start|>"],
        vision_end_token_id=special["<|vision_end|>"],
        tie_word_embeddings=True,
    )


def build() -> tuple[PreTrainedTokenizerFast, Qwen2_5_VLForConditionalGeneration]:
    """The tokenizer and a freshly initialised model."""
    tok = tokenizer()
    return tok, Qwen2_5_VLForConditionalGeneration(config(tok))
