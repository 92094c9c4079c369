"""The figure of a run's margins: how clearly each token was chosen."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from inside_generate.guards import check_numbers
from inside_generate.plots.style import ATTENTION, CHOICE, INK, label
from inside_generate.trace import Step, Trace


def plot_margins(trace: Trace, tolerance: float, *, ax: Axes | None = None) -> Axes:
    """Draw how far each token's two best logits lie apart, and the bound for rounding.

    A bar that ends before the bound is hatched: there two right programs may choose differently.
    """
    check_numbers("tolerance", [tolerance], low=0)
    margins = check_numbers("margins", map(_margin, trace.steps), low=0)
    ax = ax or plt.subplots(figsize=(5.4, 1.4 + 0.2 * len(trace.steps)))[1]
    for row, margin in enumerate(margins):
        near = margin <= tolerance
        colour, hatch = (ATTENTION, "//") if near else (CHOICE, None)
        ax.barh(row, margin, color=colour, hatch=hatch, edgecolor="white")
    ax.axvline(tolerance, color=INK, linestyle="--", linewidth=1.5)
    ax.text(tolerance, -0.6, f" rounding: {tolerance:g}", fontsize=9, va="bottom", color=INK)
    names = [f"{step.number} {label(step.text)}" for step in trace.steps]
    ax.set_yticks(range(len(names)), names, family="monospace", fontsize=9)
    ax.set(xlabel="best logit minus second best", ylim=(len(names) - 0.4, -0.7))
    ax.set_title("How clearly each token was chosen", pad=22)
    return ax


def _margin(step: Step) -> float:
    if len(step.top_k) < 2:
        raise ValueError(f"a margin needs two candidates, and token {step.number} has fewer")
    return step.top_k[0].logit - step.top_k[1].logit
