"""Figures of number formats: their bits, the numbers they have, and how far they reach."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from inside_generate.formats import NumberFormat
from inside_generate.guards import check_numbers
from inside_generate.plots.style import ATTENTION, CHOICE, INK, WEIGHTS, write_beside

MANTISSA = "#E5E5E5"  # a light WEIGHTS: text is read on it
DENSE = 256  # from here on single numbers cannot be told apart in a figure
WORD = 7  # bits that are wide enough for a word


def plot_bit_layout(formats: Sequence[NumberFormat], *, ax: Axes | None = None) -> Axes:
    """Draw each format's bits as segments: sign, exponent, mantissa, or a whole number."""
    check_numbers("formats' bits", [one.stored_bits for one in formats])
    ax = ax or plt.subplots(figsize=(5.4, 1.0 + 0.36 * len(formats)))[1]
    for row, one in enumerate(formats):
        left = 0
        for name, width, colour in _segments(one):
            edge = "--" if name == "unused" else "-"
            ax.barh(row, width, 0.72, left, color=colour, ec=INK, linestyle=edge, linewidth=0.8)
            text = f"{name} {width}" if width >= WORD else str(width)
            if name != "sign":
                middle = left + width / 2
                ax.text(middle, row, text, ha="center", va="center", fontsize=9, color=INK)
            left += width
    ax.set_yticks(range(len(formats)), [one.name for one in formats])
    ax.invert_yaxis()
    ax.set(xlabel="bits in memory (the dark one is the sign)")
    ax.set_xticks(range(0, max(one.stored_bits for one in formats) + 1, 8))
    ax.set_title("BF16 keeps the exponent of FP32")
    return ax


def _segments(one: NumberFormat) -> list[tuple[str, int, str]]:
    """Return name, width and colour of each part of a number, from the left."""
    sign = ("sign", 1, INK)
    if one.exponent is None or one.mantissa is None:
        return [sign, ("whole", one.bits - 1, "white")]
    parts = [sign, ("exponent", one.exponent, ATTENTION), ("mantissa", one.mantissa, MANTISSA)]
    unused = one.stored_bits - one.bits
    return [*parts, ("unused", unused, "white")] if unused else parts


def plot_number_line(
    formats: Sequence[NumberFormat],
    low: float,
    high: float,
    values: Sequence[float] = (),
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the numbers that each format has from ``low`` to ``high``, both above 0.

    ``values`` are marked across all rows: a format holds the nearest of its own numbers.
    """
    if not 0 < low < high < math.inf:
        raise ValueError(f"the interval must be 0 < low < high, not {low} to {high}")
    check_numbers("values", values, at_least=0, low=low, high=high)
    gaps = check_numbers("formats' spacing", [one.spacing(low) for one in formats])
    ax = ax or plt.subplots(figsize=(5.4, 1.5 + 0.5 * len(formats)))[1]
    for row, (one, gap) in enumerate(zip(formats, gaps, strict=True)):
        numbers = numbers_between(one, low, high)
        if len(numbers) > DENSE:
            ax.fill_between([low, high], row - 0.22, row + 0.22, color=WEIGHTS)
        else:
            ax.vlines(numbers, row - 0.22, row + 0.22, color=INK, linewidth=0.9)
        apart = f"{gap:.3g} apart"
        write_beside(ax, apart, (low, row - 0.27), (4, 0), va="bottom", fontsize=9)
    for value in values:
        ax.axvline(value, color=CHOICE, linestyle="--", linewidth=1.5)
        write_beside(ax, f"{value:g}", (value, -0.8), (0, 2), ha="center", va="bottom", fontsize=9)
    ax.set_yticks(range(len(formats)), [one.name for one in formats])
    ax.set(ylim=(len(formats) - 0.5, -0.8), xlim=(low, high), xlabel="value")
    ax.set_title("Fewer mantissa bits, fewer numbers", pad=22)
    return ax


def numbers_between(number_format: NumberFormat, low: float, high: float) -> list[float]:
    """Return the numbers of a format in an interval above 0, in order.

    More than ``DENSE`` of them are cut off there: they would be drawn as an area.
    """
    numbers: list[float] = []
    spacing = number_format.spacing(low)
    value = math.ceil(low / spacing) * spacing
    while value <= min(high, number_format.largest) and len(numbers) <= DENSE:
        numbers.append(value)
        value += number_format.spacing(value)
    return numbers


def plot_number_ranges(formats: Sequence[NumberFormat], *, ax: Axes | None = None) -> Axes:
    """Draw how far each float format reaches, as powers of ten, with full precision."""
    lows = [math.log10(one.smallest_normal) for one in formats]
    highs = check_numbers("formats' ends", [math.log10(one.largest) for one in formats])
    ax = ax or plt.subplots(figsize=(5.4, 1.1 + 0.4 * len(formats)))[1]
    for row, (one, low, high) in enumerate(zip(formats, lows, highs, strict=True)):
        ax.barh(row, high - low, left=low, height=0.6, color=WEIGHTS, edgecolor=INK)
        reach = f"{one.largest:,.0f}" if one.largest < 1e6 else f"{one.largest:.2g}"
        ax.text(high, row, f" to {reach}", va="center", fontsize=9, color=INK)
    ax.set_yticks(range(len(formats)), [one.name for one in formats])
    ax.invert_yaxis()
    ax.margins(x=0.28)
    ax.set(xlabel="size of a number (power of ten)")
    ax.set_title("BF16 reaches as far as FP32")
    return ax
