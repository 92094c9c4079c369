"""The drawing of one decode step's attention: one new query, all keys, then all values."""

from __future__ import annotations

import re
from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from inside_generate.plots.style import ATTENTION, CACHE, DECODE, INK, WEIGHTS, label

QUERIES, KEYS, VALUES, MIXTURE = 3.6, 2.0, 0.9, -0.5  # heights of the rows
WIDTH, HEIGHT = 0.74, 0.6


def plot_query_meets_keys(
    tokens: Sequence[str] = ("A", "B", "C", "D", "E"), *, ax: Axes | None = None
) -> Axes:
    """Draw how the last token's query meets every key and then reads every value.

    The tokens before it are in the cache: their keys and values are kept, their queries are not.
    """
    if not len(tokens):
        raise ValueError(f"the last token asks: at least one is needed, not {tokens!r}")
    ax = ax or plt.subplots(figsize=(5.4, 4.2))[1]
    last = len(tokens) - 1
    for column, token in enumerate(tokens):
        _past_or_new(ax, column, token, is_new=column == last)
        _arrow(ax, (last, QUERIES), (column, KEYS), ATTENTION)
        _arrow(ax, (column, VALUES), (last, MIXTURE), CACHE if column < last else DECODE)
    _box(ax, last, MIXTURE, "mixture", INK, "white", width=1.3)
    ax.text(-0.4, QUERIES + 0.55, "used once, not kept", color=INK, fontsize=10)
    ax.text(-0.4, (KEYS + QUERIES) / 2, "1 meets\nevery key", color="#8A5F00", fontsize=10)
    ax.text(-0.4, MIXTURE, "2 reads\nevery value", color=CACHE, fontsize=10, va="center")
    ax.set(xlim=(-0.5, last + 0.75), ylim=(MIXTURE - 0.4, QUERIES + 0.9))
    ax.axis("off")
    ax.set_title("One query asks, all keys and values answer")
    return ax


def _past_or_new(ax: Axes, column: int, token: str, *, is_new: bool) -> None:
    """Draw a token's query, key and value: new ones in vermilion, cached ones in green."""
    colour, name = DECODE if is_new else CACHE, _index(f"{token}")
    _box(ax, column, KEYS, f"$K_{{{name}}}$", colour, "white" if is_new else colour)
    _box(ax, column, VALUES, f"$V_{{{name}}}$", colour, "white" if is_new else colour)
    if is_new:
        _box(ax, column, QUERIES, f"$Q_{{{name}}}$", DECODE, "white")
    else:
        _box(ax, column, QUERIES, f"$Q_{{{name}}}$", WEIGHTS, "white", line="--")


def _index(token: str) -> str:
    """Return a token as an index in a formula: a plain word as it is, others quoted, as text."""
    if token.isascii() and token.isalnum():
        return token
    quoted = label(token).replace(r"\$", "$")
    return r"\text{" + re.sub(r"[\\{}$]", r"\\\g<0>", quoted) + "}"


def _box(
    ax: Axes,
    x: float,
    y: float,
    text: str,
    edge: str,
    fill: str,
    width: float = WIDTH,
    line: str = "-",
) -> None:
    corner = (x - width / 2, y - HEIGHT / 2)
    ax.add_patch(
        Rectangle(corner, width, HEIGHT, fc=fill, ec=edge, linewidth=1.8, linestyle=line, zorder=2)
    )
    ink = INK if fill == "white" else "white"
    ax.text(x, y, text, ha="center", va="center", fontsize=11, color=ink, zorder=3)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    """Draw an arrow from the foot of one box to the top of another."""
    feet = (start[0], start[1] - HEIGHT / 2), (end[0], end[1] + HEIGHT / 2)
    ax.add_patch(
        FancyArrowPatch(*feet, color=colour, arrowstyle="-|>", mutation_scale=10, zorder=1)
    )
