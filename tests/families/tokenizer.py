"""A byte-level tokenizer with a family's special tokens, made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

__all__ = ["make_tokenizer"]


def make_tokenizer(
    special: Sequence[str],
    template: str,
    *,
    eos: str,
    bos: str | None = None,
    named: Mapping[str, str] | None = None,
    merges: Sequence[tuple[str, str]] = (),
) -> PreTrainedTokenizerFast:
    """One token per byte, then `merges`, then `special` from id 300 on.

    Args:
        named: special tokens that a processor asks for as an attribute of the tokenizer.
        bos: put before every text by the tokenizer itself, as Llama's does.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {char: index for index, char in enumerate(alphabet)}
    for left, right in merges:
        vocab[left + right] = len(vocab)
    while len(vocab) < 300:
        vocab[f"unused{len(vocab)}"] = len(vocab)
    backend = Tokenizer(models.BPE(vocab=vocab, merges=list(merges)))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    everything = [*special, *(token for token in (bos, eos) if token and token not in special)]
    backend.add_special_tokens(everything)
    if bos:
        backend.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, backend.token_to_id(bos))]
        )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=eos,
        pad_token=eos,
        bos_token=bos,
        extra_special_tokens=dict(named or {}),
    )
    tokenizer.chat_template = template
    return tokenizer
