"""Intervals by bootstrap and a paired permutation test, both over clusters of questions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Clusters", "sign_flip_test", "spearman"]

Floats = NDArray[np.float64]


class Clusters:
    """Resamples of clusters, drawn once so that every figure of a run sees the same ones.

    Args:
        labels: the cluster of each question; questions of one cluster are drawn together.
        resamples: how many.
        seed: the same seed gives the same intervals.
    """

    def __init__(self, labels: Sequence[Hashable], *, resamples: int = 2000, seed: int = 0) -> None:
        known = {label: index for index, label in enumerate(dict.fromkeys(labels))}
        self.index = np.array([known[label] for label in labels], dtype=np.intp)
        self.count = len(known)
        rng = np.random.default_rng(seed)
        even = np.full(self.count, 1 / max(1, self.count))
        self.weights: Floats = rng.multinomial(self.count, even, resamples).astype(np.float64)

    def sums(self, values: ArrayLike) -> tuple[Floats, Floats]:
        """Per cluster, the sum of `values` [n] and how many there are; NaN counts as absent."""
        array = np.asarray(values, dtype=np.float64)
        there = ~np.isnan(array)
        sums: Floats = np.zeros(self.count)
        counts: Floats = np.zeros(self.count)
        np.add.at(sums, self.index, np.where(there, array, 0.0))
        np.add.at(counts, self.index, there.astype(np.float64))
        return sums, counts

    def interval(self, values: ArrayLike, level: float = 0.95) -> tuple[float, float]:
        """Percentile interval of the mean of `values` [n]."""
        sums, counts = self.sums(values)
        return self._percentiles(self.weights @ sums, self.weights @ counts, level)

    def ratio_interval(self, above: ArrayLike, below: ArrayLike, level: float = 0.95) -> tuple[float, float]:
        """Percentile interval of mean(above) / mean(below), both over the same questions [n]."""
        return self._percentiles(self.weights @ self.sums(above)[0], self.weights @ self.sums(below)[0], level)

    def median_interval(self, values: ArrayLike, level: float = 0.95) -> tuple[float, float]:
        """Percentile interval of the (lower) median of `values` [n], none of them absent."""
        array = np.asarray(values, dtype=np.float64)
        order = np.argsort(array, kind="stable")
        reached = np.cumsum(self.weights[:, self.index[order]], axis=1)
        medians = array[order][(reached >= reached[:, -1:] / 2).argmax(axis=1)]
        ends = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
        return float(ends[0]), float(ends[1])

    @staticmethod
    def _percentiles(above: Floats, below: Floats, level: float) -> tuple[float, float]:
        keep = below > 0
        if not keep.any():
            return float("nan"), float("nan")
        ends = np.quantile(above[keep] / below[keep], [(1 - level) / 2, (1 + level) / 2])
        return float(ends[0]), float(ends[1])


def sign_flip_test(
    first: ArrayLike, second: ArrayLike, clusters: Clusters, *, flips: int = 5000, seed: int = 0
) -> float:
    """Two-sided p of "the two have the same mean", by flipping the sign of each cluster's difference.

    Exact where there are at most 12 clusters that differ, else with `flips` seeded draws and (hits + 1) / (flips + 1).
    """
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    sums = clusters.sums(differences)[0]
    sums = sums[sums != 0]
    if not len(sums):
        return 1.0
    seen = abs(sums.sum()) * (1 - 1e-12)
    if len(sums) <= 12:
        signs = 1.0 - 2.0 * ((np.arange(2 ** len(sums))[:, None] >> np.arange(len(sums))) & 1)
        return float((np.abs(signs @ sums) >= seen).mean())
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(flips, len(sums)))
    return float(((np.abs(signs @ sums) >= seen).sum() + 1) / (flips + 1))


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Rank correlation of two lists [n], ties at their mean rank; NaN where one is constant."""
    a, b = _ranks(np.asarray(first, dtype=np.float64)), _ranks(np.asarray(second, dtype=np.float64))
    a, b = a - a.mean(), b - b.mean()
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norm if norm else float("nan")


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = (ends - (counts - 1) / 2.0)[inverse]
    return ranks
