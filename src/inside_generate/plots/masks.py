"""What a position of one prompt may look at when causal mask and attention mask are combined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle

from inside_generate.guards import check_numbers
from inside_generate.plots.style import ATTENTION, INK, WEIGHTS, label

MOST_NUMBERS = 12  # on an axis, where the columns have no names


def plot_combined_mask(
    attention_mask_row: Any, *, tokens: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the square of one prompt: row i looks, column j is looked at; orange where it may.

    ``attention_mask_row``: L numbers, 1 for a token and 0 for padding. ``tokens``: L texts.
    """
    row = check_numbers("an attention mask's row", attention_mask_row, at_least=0)
    if not row or not set(row) <= {0.0, 1.0}:
        raise ValueError(f"an attention mask's row holds ones and zeros, not {row}")
    if tokens is not None and len(tokens) != len(row):
        raise ValueError(f"{len(row)} columns need as many tokens, not {len(tokens)}")
    ax = ax or plt.subplots(figsize=(5.4, 4.4))[1]
    cells = [[int(real and j <= i) for j, real in enumerate(row)] for i in range(len(row))]
    colours = ListedColormap(["white", ATTENTION])
    ax.pcolormesh(cells, cmap=colours, vmin=0, vmax=1, edgecolors=WEIGHTS, linewidth=0.8)
    _hatch_padding(ax, row)
    _name_columns(ax, tokens or range(len(row)))
    ax.set(xlabel="is looked at (column j)", ylabel="looks (row i)", aspect="equal")
    ax.set_title("Never ahead, never at padding" if 0 in row else "Never ahead")
    return ax


def _hatch_padding(ax: Axes, row: list[float]) -> None:
    padding = [column for column, real in enumerate(row) if not real]
    for column in padding:
        box = Rectangle((column, 0), 1, len(row), fill=False, edgecolor=WEIGHTS, hatch="///")
        ax.add_patch(box)
    if padding:
        frame = {"facecolor": "white", "edgecolor": WEIGHTS, "boxstyle": "round,pad=0.3"}
        middle = sum(padding) / len(padding) + 0.5, len(row) / 2
        ax.text(*middle, "padding", ha="center", va="center", color=INK, bbox=frame)


def _name_columns(ax: Axes, tokens: Sequence[str] | range) -> None:
    """Write each token's text, or every few columns its number."""
    step = 1 + len(tokens) // MOST_NUMBERS if isinstance(tokens, range) else 1
    names = [str(one) if isinstance(one, int) else label(one) for one in tokens[::step]]
    places = [number + 0.5 for number in range(0, len(tokens), step)]
    ax.set_xticks(places, names, family="monospace", fontsize=9, rotation=90)
    ax.set_yticks(places, names, family="monospace", fontsize=9)
    ax.tick_params(length=0)
    ax.invert_yaxis()
