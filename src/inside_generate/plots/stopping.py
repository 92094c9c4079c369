"""Figures of how a run ends: the end-of-sequence token (EOS) against all the others."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from inside_generate.guards import check_probabilities
from inside_generate.plots.style import CHOICE, INK

SMALLEST = 1e-12  # below it softmax in fp32 is as good as 0, which a logarithmic axis cannot show


def plot_eos_probability(
    probabilities: Sequence[float], chosen: Sequence[bool], *, ax: Axes | None = None
) -> Axes:
    """Draw the probability of EOS at each step of a run, filled where it was the token chosen.

    ``probabilities[i]`` is what the logits that scored token i + 1 gave to EOS.
    """
    if len(probabilities) != len(chosen):
        raise ValueError(
            f"a probability and a choice for each step, not {len(probabilities)} and {len(chosen)}"
        )
    heights = [max(p, SMALLEST) for p in check_probabilities("probabilities", probabilities)]
    ax = ax or plt.subplots()[1]
    numbers = range(1, len(probabilities) + 1)
    fills = [CHOICE if picked else "white" for picked in chosen]
    ax.plot(numbers, heights, color=CHOICE, linewidth=1)
    ax.scatter(numbers, heights, s=36, color=fills, edgecolor=CHOICE, zorder=3)
    ax.axhline(1, color=INK, linewidth=0.8, linestyle=":")
    for number, height, picked in zip(numbers, heights, chosen, strict=True):
        if picked:
            ax.annotate("chosen", (number, height), (0, 8), textcoords="offset points", ha="center")
    ax.set(yscale="log", ylim=(min(heights) / 8, 40), xlabel="number of the token being chosen")
    ax.set(ylabel="probability of EOS", title="EOS is scored at every step")
    ax.margins(x=0.08)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax
