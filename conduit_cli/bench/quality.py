"""Scores of an answer, and how far a distribution is from full prefill's."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

__all__ = ["ANLS_THRESHOLD", "anls", "edit_distance", "exact_match", "kl_divergence", "negative_log_likelihood", "tidy"]

ANLS_THRESHOLD = 0.5


def tidy(text: str) -> str:
    """An answer for comparison: lower case, single spaces, no full stop at its end."""
    return " ".join(text.lower().split()).removesuffix(".").rstrip()


def exact_match(answer: str, accepted: Sequence[str]) -> float:
    """1 if an answer equals an accepted one after `tidy`, else 0."""
    return float(tidy(answer) in {tidy(a) for a in accepted})


def anls(answer: str, accepted: Sequence[str]) -> float:
    """Average normalised Levenshtein similarity of one question (Biten et al., ICCV 2019).

    The largest 1 - distance / longer length over the accepted answers; 0 where it is below 0.5.
    """
    return max((_similarity(tidy(answer), tidy(a)) for a in accepted), default=0.0)


def _similarity(a: str, b: str) -> float:
    longest = max(len(a), len(b))
    similarity = 1.0 - edit_distance(a, b) / longest if longest else 1.0
    return similarity if similarity >= ANLS_THRESHOLD else 0.0


def edit_distance(a: str, b: str) -> int:
    """Levenshtein distance: insertions, deletions and substitutions."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def kl_divergence(reference: Tensor, other: Tensor) -> float:
    """KL(reference || other) in nats of two distributions given by their logits [vocab]."""
    p, q = reference.double().log_softmax(-1), other.double().log_softmax(-1)
    return max(0.0, float((p.exp() * (p - q)).sum()))


def negative_log_likelihood(logits: Tensor, targets: Tensor) -> float:
    """Mean over tokens of -log p(target), logits [n, vocab] and targets [n], in nats."""
    return float(-logits.double().log_softmax(-1).gather(1, targets[:, None]).mean())
