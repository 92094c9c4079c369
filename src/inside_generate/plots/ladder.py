"""The figures of the ladder: time of a token on each rung, and shares of a machine's bandwidth."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from inside_generate.guards import check_numbers
from inside_generate.plots.style import DECODE, INK, WEIGHTS

POINTS = "offset points"
MARKERS = "osD^v"


def plot_ladder(
    tpot_ms: Mapping[str, float],
    exact: Mapping[str, bool],
    floor_ms: float,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw milliseconds a token for each rung, the first on top, and the least that bytes allow.

    Bars of rungs that are not exact are grey and hatched.
    """
    names = list(tpot_ms)
    values = check_numbers("tpot_ms", tpot_ms.values(), at_least=1, low=0)
    check_numbers("floor_ms", [floor_ms], low=0)
    if missing := [name for name in names if name not in exact]:
        raise ValueError(f"exact says nothing of {missing[0]!r}")
    ax = ax or plt.subplots(figsize=(5.4, 0.9 + 0.5 * len(names)))[1]
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        if exact[name]:
            ax.barh(place, value, height=0.6, color=DECODE)
        else:
            ax.barh(place, value, height=0.6, color="none", edgecolor=WEIGHTS, hatch="///")
        note = f"{value:.3g} ms" if exact[name] else f"{value:.3g} ms, not exact"
        ax.annotate(
            note,
            (value, place),
            (4, 0),
            textcoords=POINTS,
            va="center",
            fontsize=9,
            bbox={"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 0.5},
        )
    ax.axvline(floor_ms, color=INK, linestyle="--", linewidth=1, zorder=2)
    note = f"bytes at the ceiling: {floor_ms:.3g} ms"
    ax.annotate(note, (floor_ms, len(names) - 0.4), (4, 0), textcoords=POINTS, fontsize=9)
    ax.set(xlabel="milliseconds a token")
    ax.set_xlim(0, max(*values, floor_ms) * 1.35)  # room for the notes
    ax.set_ylim(len(names) - 0.1, -0.6)
    ax.set_yticks(range(len(names)), names)
    best = min((name for name in names if exact[name]), key=lambda name: tpot_ms[name], default="")
    ax.set_title(f"Fastest exact rung: {best}" if best else "No rung is exact")
    return ax


def plot_shares(
    here: Mapping[str, float],
    recorded: Mapping[str, Mapping[str, float]],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of the memory ceiling that each rung reaches: here, and where recorded.

    Shares are of 1. What was measured here has filled marks, what was recorded has hollow ones.
    """
    machines = {"here": here, **recorded}
    if len(machines) > len(MARKERS):
        raise ValueError(f"at most {len(MARKERS) - 1} recorded results can be told apart")
    names = list(dict.fromkeys(name for shares in machines.values() for name in shares))
    if not names:
        raise ValueError("there is no share to draw")
    ax = ax or plt.subplots(figsize=(5.4, 1.6 + 0.42 * len(names)))[1]
    for (machine, shares), marker in zip(machines.items(), MARKERS, strict=False):
        values = check_numbers(f"shares of {machine}", shares.values(), low=0)
        ax.plot(
            values,
            [names.index(name) for name in shares],
            marker,
            color=DECODE if machine == "here" else INK,
            markerfacecolor=DECODE if machine == "here" else "none",
            markersize=8,
            label="measured here" if machine == "here" else f"recorded: {machine}",
        )
    ax.xaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    ax.set_xlim(left=0)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="share of the machine's memory ceiling")
    ax.grid(axis="y", linestyle=":", linewidth=0.6)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), fontsize=9, frameon=False)
    ax.set_title("How near each rung comes to the ceiling")
    return ax
