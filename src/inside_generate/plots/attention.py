"""Figures of attention: which position may look at which."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from inside_generate.guards import whole_number
from inside_generate.plots.style import ATTENTION, INK, WEIGHTS, label

LARGEST_WITH_TEXT = 12  # cells a row; in smaller cells a text of 9 points does not fit


def plot_causal_mask(length_or_tokens: int | Sequence[str], *, ax: Axes | None = None) -> Axes:
    """Draw the mask M of n positions: 0 where a row may look at a column, −∞ above the diagonal.

    ``length_or_tokens`` is n, or the n tokens' texts for both axes. Where the cells are too small
    for "−∞" they are hatched.
    """
    names = _names(length_or_tokens)
    ax = ax or plt.subplots(figsize=(5.4, 5.4))[1]
    size = len(names)
    may_look = [[int(column <= row) for column in range(size)] for row in range(size)]
    ax.pcolormesh(
        may_look, cmap=ListedColormap(["white", ATTENTION]), vmin=0, vmax=1, edgecolors=WEIGHTS
    )
    _mark_cells(ax, may_look)
    middles = [position + 0.5 for position in range(size)]
    font_size = 9 if size > LARGEST_WITH_TEXT else 10
    ax.set_xticks(middles, names, family="monospace", fontsize=font_size, rotation=90)
    ax.set_yticks(middles, names, family="monospace", fontsize=font_size)
    ax.invert_yaxis()
    ax.set_aspect("equal")
    ax.set(xlabel="is looked at (column j)", ylabel="looks (row i)")
    ax.set_title("No position looks ahead")
    return ax


def _names(length_or_tokens: int | Sequence[str]) -> list[str]:
    if isinstance(length_or_tokens, Sequence):
        names = [label(token) for token in length_or_tokens]
    else:
        length = whole_number("a mask's length", length_or_tokens)
        names = [str(position) for position in range(length)]
    if not names:
        raise ValueError(f"a mask needs at least one position, not {length_or_tokens!r}")
    return names


def _mark_cells(ax: Axes, may_look: list[list[int]]) -> None:
    """Write what M holds into each cell, or hatch the cells that hold −∞."""
    size = len(may_look)
    if size > LARGEST_WITH_TEXT:
        stairs = [(row + 1, row + down) for row in range(size - 1) for down in (0, 1)]
        corners = [*stairs, (size, size - 1), (size, 0)]
        ax.add_patch(plt.Polygon(corners, fill=False, ec=WEIGHTS, hatch="//"))
        return
    for row, cells in enumerate(may_look):
        for column, seen in enumerate(cells):
            text, middle = "0" if seen else "−∞", (column + 0.5, row + 0.5)
            ax.text(*middle, text, ha="center", va="center", color=INK, fontsize=11)
