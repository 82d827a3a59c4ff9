"""From records to results: means with intervals per cell, medians of times, tests between policies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean, median
from typing import Any

from conduit_cli.bench.contenders import REFERENCE, Cell
from conduit_cli.bench.stats import Clusters, sign_flip_test
from conduit_cli.bench.timing import STAGES

__all__ = ["summarise"]

Record = dict[str, Any]
_QUALITY = ("em", "anls", "kl", "nll", "top1", "same")
_TESTED = ("em", "anls", "kl", "nll")


def summarise(records: Sequence[Record], cells: Sequence[Cell], *, seed: int = 0) -> dict[str, Any]:
    """Results of a run.

    Returns:
        `cells`: one entry per policy and ratio; `kinds`: exact match and KL per kind of question; `tests`: two-sided
        p between policies of one ratio; `overlap`: mean intersection over union; `diagnostics`, where there are any.
    """
    table = _Table(records, seed)
    kinds = sorted({kind for record in records for kind in record["kind"].split("; ")})
    results: dict[str, Any] = {
        "cells": [table.cell(cell) for cell in cells],
        "kinds": {kind: _of_kind(records, kind, cells) for kind in kinds if kind},
        "tests": [table.test(a, b) for a, b in _pairs(cells)],
        "overlap": _overlap(records),
    }
    if any("diagnostics" in record for record in records):
        results["diagnostics"] = _diagnostics([r["diagnostics"] for r in records if "diagnostics" in r])
    return results


class _Table:
    """The records, column by column."""

    def __init__(self, records: Sequence[Record], seed: int) -> None:
        self.records, self.seed = records, seed
        self.clusters = Clusters([record["cluster"] for record in records], seed=seed)
        reference = next(key for key in records[0]["runs"] if key.startswith(f"{REFERENCE}@"))
        self.reference = [record["runs"][reference] for record in records]

    def runs(self, cell: Cell) -> list[Record]:
        return [record["runs"][cell.key] for record in self.records]

    def cell(self, cell: Cell) -> Record:
        """Every figure of one row."""
        runs = self.runs(cell)
        row: Record = {"policy": cell.contender.label, "ratio": cell.ratio, "n": len(runs)}
        for name in _QUALITY:
            values = _column(runs, name)
            row[name] = _mean(values)
            row[f"{name}_interval"] = _known(self.clusters.interval(values))
        for name in ("em", "anls"):
            row[f"{name}_retention"], row[f"{name}_retention_interval"] = self._retention(runs, name)
        row["answer_page_share"] = _mean(_column(runs, "on_answer"))
        row["refreshed_share"] = _mean(
            [run["refreshed"] / record["visual"] for run, record in zip(runs, self.records, strict=True)]
        )
        row["bytes"] = median(run["bytes"] for run in runs)
        return row | self._flops(runs) | self._times(runs)

    def _retention(self, runs: list[Record], name: str) -> tuple[float | None, list[float] | None]:
        mine, full = _column(runs, name), _column(self.reference, name)
        below = _mean(full)
        above = _mean(mine)
        if not below or above is None:
            return None, None
        return above / below, _known(self.clusters.ratio_interval(mine, full))

    def _flops(self, runs: list[Record]) -> Record:
        """FLOPs over full prefill's: counted, on those questions where they were; and by formula, on all."""
        trio = list(zip(runs, self.reference, self.records, strict=True))
        trio = [one for one in trio if one[0]["flops"] is not None]
        return {
            "counted": len(trio),
            "flops_ratio": _mean([run["flops"] / full["flops"] for run, full, _ in trio]),
            "flops_ratio_with_vision": _mean(
                [run["flops"] / (full["flops"] + record["vision"]["flops"]) for run, full, record in trio]
            ),
            "analytic_flops_ratio": fmean(run["analytic_flops"] / run["full_flops"] for run in runs),
        }

    def _times(self, runs: list[Record]) -> Record:
        """Medians over repeats, then over those questions that were timed; ratios are taken per question."""
        trio = [one for one in zip(runs, self.reference, self.records, strict=True) if one[0]["times"]]
        if not trio:
            return {}
        ttft = [median(t["ttft"] for t in run["times"]) for run, _, _ in trio]
        full = [median(t["ttft"] for t in run["times"]) for _, run, _ in trio]
        vision = [record["vision"]["seconds"] for _, _, record in trio]
        stages = {
            stage: median(median(t.get(stage, 0.0) for t in run["times"]) for run, _, _ in trio) for stage in STAGES
        }
        relative = [a / b for a, b in zip(ttft, full, strict=True)]
        clusters = Clusters([record["cluster"] for _, _, record in trio], seed=self.seed)
        return {
            "timed": len(trio),
            "ttft_s": median(ttft),
            "ttft_ratio": median(relative),
            "ttft_ratio_interval": _known(clusters.median_interval(relative)),
            "ttft_ratio_with_vision": median(a / (b + v) for a, b, v in zip(ttft, full, vision, strict=True)),
            "stages_s": stages,
        }

    def test(self, a: Cell, b: Cell) -> Record:
        """Difference of means (first less second) and its p, per score."""
        first, second = self.runs(a), self.runs(b)
        row: Record = {"first": a.contender.label, "second": b.contender.label, "ratio": a.ratio}
        for name in _TESTED:
            x, y = _column(first, name), _column(second, name)
            if not all(math.isnan(v) for v in x):
                difference = _mean([p - q for p, q in zip(x, y, strict=True)])
                row[name] = {"difference": difference, "p": sign_flip_test(x, y, self.clusters, seed=self.seed)}
        return row


def _pairs(cells: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Cells of one ratio; those without a budget, at ratios 0 and 1, with every other policy."""
    fixed = {"full", "reuse"}
    return [
        (a, b)
        for a, b in combinations(cells, 2)
        if a.ratio == b.ratio or a.contender.name in fixed or b.contender.name in fixed
    ]


def _of_kind(records: Sequence[Record], kind: str, cells: Sequence[Cell]) -> Record:
    found = [record for record in records if kind in record["kind"].split("; ")]
    return {
        "n": len(found),
        "cells": {
            cell.key: {name: _mean(_column([r["runs"][cell.key] for r in found], name)) for name in ("em", "kl")}
            for cell in cells
        },
    }


def _overlap(records: Sequence[Record]) -> dict[str, float]:
    return {pair: fmean(record["overlap"][pair] for record in records) for pair in records[0]["overlap"]}


def _diagnostics(found: list[Record]) -> Record:
    return {
        "n": len(found),
        "norms": _mean([d["norms"] for d in found]),
        "harmful_blocks": _mean([d["harmful_blocks"] for d in found]),
        **{
            what: {name: _mean([d[what][name] for d in found]) for name in found[0][what]} for what in ("drift", "gain")
        },
    }


def _column(runs: Sequence[Record], name: str) -> list[float]:
    return [math.nan if run[name] is None else float(run[name]) for run in runs]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return fmean(known) if known else None


def _known(interval: tuple[float, float]) -> list[float] | None:
    return None if math.isnan(interval[0]) else list(interval)
