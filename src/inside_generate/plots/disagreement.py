"""Figures of two programs that differ: error against margin at each step, and pair against pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from inside_generate.guards import check_as_many, check_numbers
from inside_generate.plots.style import ATTENTION, CHOICE, INK, WEIGHTS

FLOOR = 0.3  # a logarithmic axis has no 0: it stands this far below the smallest number drawn
LOOKS = (("o", CHOICE), ("s", ATTENTION), ("^", WEIGHTS))  # of each number format, in turn
SIGNS = {"o": "dot", "s": "square", "^": "triangle"}


def plot_error_and_margin(
    errors: Sequence[float],
    margins: Sequence[float],
    partings: Sequence[int] = (),
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw each step's margin against twice the error, in logits, on a logarithmic axis.

    Steps whose margin is not larger are shaded: there two right programs may choose differently.
    ``partings`` are the steps, from 1, at which they do. A margin of 0 lies on the lower edge.
    """
    check_as_many(errors=errors, margins=margins)
    reach = [2 * error for error in check_numbers("errors", errors, low=0)]
    gaps = check_numbers("margins", margins, low=0)
    ax = ax or plt.subplots(figsize=(5.4, 3.6))[1]
    floor = _floor([*reach, *gaps])
    numbers, drawn = range(1, len(gaps) + 1), [max(gap, floor) for gap in gaps]
    for number, far, gap in zip(numbers, reach, gaps, strict=True):
        if not far < gap:
            ax.axvspan(number - 0.5, number + 0.5, color=ATTENTION, alpha=0.25, linewidth=0)
    ax.plot(numbers, drawn, "o", color=CHOICE, markersize=5)
    ax.plot(numbers, [max(far, floor) for far in reach], color=INK, drawstyle="steps-mid")
    for number in partings:
        ax.plot(number, drawn[number - 1], "X", color=INK, markersize=11, zorder=4)
    said = "dot: margin   line: twice the error   shaded: open   cross: parted"
    ax.text(0, 1.02, said, transform=ax.transAxes, fontsize=9.5, va="bottom")
    ax.set(yscale="log", xlim=(0.4, len(gaps) + 0.6), ylim=(floor * 0.8, None))
    ax.set(xlabel="number of the token being chosen", ylabel="logits")
    ax.set_title("Where the margin is larger, the choice is safe", pad=24)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return ax


def plot_pairs(
    largest: Mapping[str, Mapping[str, float]],
    tolerances: Mapping[str, float],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the largest difference of each pair of programs, on a logarithmic axis.

    ``largest`` gives for each pair a number for each number format; ``tolerances`` the bound of
    each format, drawn as a dashed line. A difference of 0 lies on the left edge and says so. The
    title says whether every pair stays within its bound.
    """
    numbers = [number for row in largest.values() for number in row.values()]
    check_numbers("largest", numbers, low=0)
    bounds = check_numbers("tolerances", tolerances.values(), low=0)
    formats = dict.fromkeys([*tolerances, *(name for row in largest.values() for name in row)])
    if len(formats) > len(LOOKS):
        raise ValueError(f"there are signs for {len(LOOKS)} formats, not for {list(formats)}")
    looks = dict(zip(formats, LOOKS, strict=False))
    ax = ax or plt.subplots(figsize=(5.4, 1.7 + 0.42 * len(largest)))[1]
    floor = _floor([*bounds, *numbers])
    for y, row in enumerate(largest.values()):
        _marks(ax, y, {looks[name]: number for name, number in row.items()}, floor)
    for name, bound in zip(tolerances, bounds, strict=True):
        ax.axvline(bound, color=looks[name][1], linestyle="--", linewidth=1.5, zorder=0)
        ax.text(bound, -0.75, f"allowed\n{name}", ha="center", va="bottom", fontsize=9)
    signs = "   ".join(f"{SIGNS[marker]}: {name}" for name, (marker, _) in looks.items())
    ax.set_yticks(range(len(largest)), list(largest))
    ax.set(xscale="log", xlabel=f"largest difference of a logit\n{signs}")
    ax.set(ylim=(len(largest) - 0.5, -0.7))
    ax.set_xlim(left=floor)
    bound_of = dict(zip(tolerances, bounds, strict=True))
    within = all(
        number <= bound_of.get(name, number)
        for row in largest.values()
        for name, number in row.items()
    )
    said = (
        "Right programs stay left of their line" if within else "More than rounding: beyond a line"
    )
    ax.set_title(said, pad=38)
    return ax


def _marks(ax: Axes, y: int, row: Mapping[tuple[str, str], float], floor: float) -> None:
    """Draw one pair's numbers, each with the sign and colour of its format."""
    for (marker, colour), number in row.items():
        ax.plot(max(number, floor), y, marker, color=colour, markersize=8, clip_on=False)
        if not number:
            ax.annotate("0", (floor, y), (8, 0), textcoords="offset points", va="center")


def _floor(numbers: Sequence[float]) -> float:
    """Return where 0 is drawn."""
    return FLOOR * min((number for number in numbers if number > 0), default=1.0)
