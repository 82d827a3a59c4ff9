"""Quality and time to the first token against the refresh ratio, as one picture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

_WHOLE_RANGE = ("full", "reuse")


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Write a PNG: exact match kept (where answers are known), KL to full prefill, and relative time."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = [("kl", "KL to full prefill, nats"), ("ttft_ratio", "time to first token / full prefill's")]
    if any(row["em_retention"] is not None for row in results["cells"]):
        panels.insert(0, ("em_retention", "exact match / full prefill's"))
    panels = [(name, title) for name, title in panels if any(row.get(name) is not None for row in results["cells"])]
    figure = Figure(figsize=(5.2 * len(panels), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    for number, (name, title) in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), number)
        _panel(axes, results["cells"], name)
        axes.set_xlabel("refresh ratio")
        axes.set_ylabel(title)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.suptitle(f"{results['model']}, {results['questions']} questions", fontsize=10)
    figure.savefig(path, dpi=140, metadata={"Software": None})


def _panel(axes: Axes, rows: list[dict[str, Any]], name: str) -> None:
    """One line per policy with its intervals; policies without a budget as level lines."""
    lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row.get(name) is not None:
            lines[row["policy"]].append(row)
    for index, (policy, points) in enumerate(lines.items()):
        colour, marker = f"C{index % 10}", "osD^vP"[index // 10 % 6]
        if policy in _WHOLE_RANGE:
            axes.axhline(points[0][name], label=policy, color="black", linestyle="--" if policy == "full" else ":")
            continue
        ratios, values = [p["ratio"] for p in points], [p[name] for p in points]
        axes.plot(ratios, values, label=policy, color=colour, marker=marker, markersize=4, linewidth=1.4)
        ends = [p[f"{name}_interval"] for p in points if p.get(f"{name}_interval")]
        if len(ends) == len(points):
            axes.fill_between(ratios, [e[0] for e in ends], [e[1] for e in ends], color=colour, alpha=0.07, linewidth=0)
    axes.set_xscale("symlog", linthresh=0.05)
    ticks = sorted({row["ratio"] for row in rows if row["policy"] not in _WHOLE_RANGE})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
    axes.minorticks_off()
    axes.grid(alpha=0.25)
