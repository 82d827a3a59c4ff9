"""Results as rows of short strings for a table; nothing is drawn here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conduit_cli.bench.timing import STAGES

__all__ = ["allocation", "cost", "diagnostics", "quality", "stages", "tests"]

Table = tuple[list[str], list[list[str]]]


def quality(results: Mapping[str, Any]) -> Table:
    """Scores with 95 % intervals; `kept` is exact match (where no answer is known, nothing) over full prefill's."""
    rows = [
        [
            *_named(row),
            _with_interval(row, "em"),
            _number(row["anls"]),
            _share(row["em_retention"]),
            _with_interval(row, "kl"),
        ]
        for row in results["cells"]
    ]
    return ["policy", "ratio", "exact match", "ANLS", "kept", "KL to full"], rows


def allocation(results: Mapping[str, Any]) -> Table:
    """How like full prefill the answer is, and where the budget went."""
    rows = [
        [
            *_named(row),
            _number(row["nll"]),
            _share(row["top1"]),
            _share(row["same"]),
            _share(row["refreshed_share"]),
            _share(row["answer_page_share"]),
        ]
        for row in results["cells"]
    ]
    return ["policy", "ratio", "NLL of full", "same first token", "same answer", "refreshed", "on answer page"], rows


def cost(results: Mapping[str, Any]) -> Table:
    """FLOPs and time to the first token over full prefill's, without and with its vision tower."""
    rows = [
        [
            *_named(row),
            _share(row["analytic_flops_ratio"] if row["flops_ratio"] is None else row["flops_ratio"]),
            _share(row["flops_ratio_with_vision"]),
            _share(row.get("ttft_ratio")),
            _share(row.get("ttft_ratio_with_vision")),
            f"{row['bytes'] / 1e6:.2f}",
        ]
        for row in results["cells"]
    ]
    return ["policy", "ratio", "FLOPs", "with vision", "TTFT", "with vision", "MB read"], rows


def stages(results: Mapping[str, Any]) -> Table:
    """Milliseconds to the first token, and where they went; empty where no times were taken."""
    timed = [row for row in results["cells"] if "stages_s" in row]
    rows = [
        [
            *_named(row),
            f"{1000 * row['ttft_s']:.1f}",
            *(f"{1000 * row['stages_s'][stage]:.1f}" for stage in STAGES),
        ]
        for row in timed
    ]
    named = [stage.replace("_", " ") for stage in STAGES]
    return ["policy", "ratio", "TTFT ms", *named], rows


def tests(results: Mapping[str, Any]) -> Table:
    """The first policy against every other at the same ratio."""
    first = results["cells"][0]["policy"]
    rows = []
    for test in results["tests"]:
        if test["first"] == first and test["second"] != first:
            told = [_difference(test.get(name)) for name in ("em", "kl")]
            rows.append([f"{first} against {test['second']}", f"{test['ratio']:g}", *told])
    return ["difference", "ratio", "exact match", "KL to full"], rows


def diagnostics(results: Mapping[str, Any]) -> list[str]:
    """Sentences on the rank correlations, where they were measured."""
    found = results.get("diagnostics")
    if not found:
        return []
    lines = [
        f"on {found['n']} questions: rank correlation of stored value norms with recomputed {_number(found['norms'])}",
        f"blocks whose refresh alone moves the first token away from full prefill: {_share(found['harmful_blocks'])}",
    ]
    for what, said in (("gain", "the true gain of refreshing a block"), ("drift", "how far values moved")):
        lines.append(f"rank correlation with {said}: {_listed(found[what])}")
    return lines


def _named(row: Mapping[str, Any]) -> list[str]:
    return [row["policy"], f"{row['ratio']:g}"]


def _difference(test: Mapping[str, float] | None) -> str:
    return "" if test is None else f"{test['difference']:+.4f} (p {test['p']:.3f})"


def _listed(values: Mapping[str, float | None]) -> str:
    return ", ".join(f"{name} {_number(value)}" for name, value in values.items())


def _with_interval(row: Mapping[str, Any], name: str) -> str:
    ends: Sequence[float] | None = row[f"{name}_interval"]
    return _number(row[name]) if ends is None else f"{row[name]:.3f} {ends[0]:.2f}-{ends[1]:.2f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
