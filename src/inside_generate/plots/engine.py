"""The figure of an engine held against the reference, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from inside_generate.guards import check_numbers
from inside_generate.plots.style import ATTENTION, DECODE, INK, PREFILL

POINTS = "offset points"
LOOKS = ((PREFILL, "o", "-"), (DECODE, "s", "--"), (ATTENTION, "^", ":"))
FLOOR = 1e-9  # where an error of exactly 0 is drawn: a scale of powers of ten has no 0


def plot_error_by_layer(
    errors: Mapping[str, Sequence[float]], allowed: float, *, ax: Axes | None = None
) -> Axes:
    """Draw each engine's error after each layer, relative to the largest number there.

    ``allowed`` is the bound for rounding; at most three engines can be told apart.
    """
    check_numbers("allowed", [allowed], low=FLOOR)
    if not 1 <= len(errors) <= len(LOOKS):
        raise ValueError(f"errors must be of 1 to {len(LOOKS)} engines, not {len(errors)}")
    drawn = {
        name: [max(error, FLOOR) for error in check_numbers(f"errors of {name}", values, low=0)]
        for name, values in errors.items()
    }
    ax = ax or plt.subplots(figsize=(5.4, 3.4))[1]
    for (name, heights), (colour, marker, line) in zip(drawn.items(), LOOKS, strict=False):
        ax.plot(heights, color=colour, marker=marker, markersize=4, linestyle=line)
        middle = len(heights) / 2 - 0.5, max(heights)
        ax.annotate(name, middle, (0, 5), textcoords=POINTS, ha="center", fontsize=9, color=INK)
    ax.axhline(allowed, color=INK, linestyle="--", linewidth=1)
    ax.annotate("bound for rounding", (0, allowed), (0, 4), textcoords=POINTS, fontsize=9)
    every = [allowed, *(height for heights in drawn.values() for height in heights)]
    ax.set_ylim(min(every) / 4, max(every) * 5)  # room for the names
    ax.set_yscale("log")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="layer", ylabel="largest error / largest number")
    ax.set_title(_message(drawn, allowed))
    return ax


def _message(errors: Mapping[str, Sequence[float]], allowed: float) -> str:
    wrong = [values for values in errors.values() if max(values) > allowed]
    if not wrong:
        return "In every layer the error is rounding"
    first = min(next(i for i, error in enumerate(values) if error > allowed) for values in wrong)
    return f"More than rounding, from layer {first} on"
