"""Figures of broken loops: how far off each step is, and what stays alive step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import MaxNLocator

from inside_generate.guards import check_as_many, check_numbers
from inside_generate.memory import MIB
from inside_generate.plots.style import CACHE, DECODE, INK

# From white to a light vermilion, on which dark figures can be read.
SHADES = LinearSegmentedColormap.from_list("off", ["white", "#F0A77A"])


def plot_error_grid(
    errors: Mapping[str, Sequence[float]], allowed: float, *, ax: Axes | None = None
) -> Axes:
    """Draw one row of figures for each step: how far its logits are off after each token.

    ``allowed`` is what rounding may do: white. The shade grows with the logarithm above it.
    """
    if not errors:
        raise ValueError("errors must name at least one step, not be empty")
    table = [check_numbers(f"errors of {name!r}", row, low=0) for name, row in errors.items()]
    check_as_many(**{str(name): row for name, row in errors.items()})
    check_numbers("allowed", [allowed], low=0)
    if not allowed > 0:
        raise ValueError(f"allowed must be above 0, not {allowed!r}")
    ax = ax or plt.subplots(figsize=(5.4, 1.4 + 0.38 * len(table)))[1]
    shades = [[math.log10(max(value, allowed) / allowed) for value in row] for row in table]
    ax.imshow(shades, cmap=SHADES, aspect="auto", vmin=0, vmax=max(1, *map(max, shades)))
    for y, row in enumerate(table):
        for x, value in enumerate(row):
            weight = "bold" if value > allowed else "normal"
            ax.text(x, y, _figure(value), ha="center", va="center", color=INK, weight=weight)
    ax.set_xticks(range(len(table[0])), [str(n) for n in range(1, len(table[0]) + 1)])
    ax.set_yticks(range(len(table)), list(errors))
    ax.set(xlabel="after token", title="Logits off by (bold: more than rounding)")
    ax.tick_params(length=0)
    return ax


def _figure(value: float) -> str:
    """Return an error in few characters: what is far below 0.01 is 0.00."""
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def plot_live_bytes(series: Mapping[str, Sequence[float]], *, ax: Axes | None = None) -> Axes:
    """Draw the bytes alive after each step beyond what prefill left, a line for each way."""
    if not series:
        raise ValueError("series must hold at least one line, not be empty")
    looks = [(DECODE, "o"), (CACHE, "s"), (INK, "^")]
    if len(series) > len(looks):
        raise ValueError(f"at most {len(looks)} lines can be told apart, not {len(series)}")
    lines = {name: check_numbers(f"bytes of {name!r}", row, low=0) for name, row in series.items()}
    ax = ax or plt.subplots(figsize=(5.4, 3.2))[1]
    for (name, values), (colour, marker) in zip(lines.items(), looks, strict=False):
        steps, mib = range(1, len(values) + 1), [value / MIB for value in values]
        ax.plot(steps, mib, color=colour, marker=marker)
        ax.annotate(
            name, (len(values), mib[-1]), xytext=(0, 8), textcoords="offset points",
            ha="right", va="bottom", color=colour, weight="bold",
        )  # fmt: skip
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_ylim(0, 1.18 * max(max(row) for row in lines.values()) / MIB or 1)
    ax.set(xlabel="decode step", ylabel="alive beyond prefill's (MiB)")
    ax.set_title("Without the switch, history stays")
    return ax
