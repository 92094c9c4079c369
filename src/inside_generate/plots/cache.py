"""Figures of the KV cache: what it saves, how it grows, and what it takes beside the weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from transformers import PretrainedConfig

from inside_generate.cache import kv_cache_bytes, logits_bytes, weight_bytes
from inside_generate.guards import check_as_many, check_numbers
from inside_generate.plots.style import CACHE, CHOICE, DECODE, INK, PREFILL, WEIGHTS

KIB, MIB, GIB = 1024, 1024**2, 1024**3
LONGEST = 32 * 1024  # tokens


def plot_work(without: Sequence[int], with_cache: Sequence[int], *, ax: Axes | None = None) -> Axes:
    """Draw how many token positions each forward computes, without a cache and with one."""
    _check_forwards(without, with_cache)
    ax = ax or plt.subplots()[1]
    numbers = range(1, len(without) + 1)
    ax.bar(numbers, without, color="white", edgecolor=PREFILL, hatch="//", linewidth=1.2)
    colours = [PREFILL] + [DECODE] * (len(with_cache) - 1)
    ax.bar(numbers, with_cache, color=colours, width=0.5)
    room = max(without)
    ax.text(1, 1.06 * room, "without a cache: all again, hatched", color=PREFILL)
    ax.text(1, 1.20 * room, "with a cache: the new token only, filled", color=DECODE)
    ax.set(xlabel="forward pass", ylabel="token positions computed", ylim=(0, 1.32 * room))
    ax.set_title("With a cache, a step computes one position")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


def _check_forwards(without: Sequence[int], with_cache: Sequence[int]) -> None:
    check_as_many(without=without, with_cache=with_cache)
    check_numbers("positions computed", [*without, *with_cache], low=1)


def plot_total_work(
    without: Sequence[int], with_cache: Sequence[int], *, ax: Axes | None = None
) -> Axes:
    """Draw the token positions computed so far, after each forward, without and with a cache."""
    _check_forwards(without, with_cache)
    ax = ax or plt.subplots()[1]
    looks = {"without a cache": (without, PREFILL, "o"), "with a cache": (with_cache, DECODE, "s")}
    for name, (counts, colour, marker) in looks.items():
        totals = list(accumulate(counts))
        ax.plot(range(1, len(totals) + 1), totals, color=colour, marker=marker, markersize=4)
        place = (len(totals), totals[-1])
        ax.annotate(
            f"{name}: {totals[-1]}",
            place,
            (0, 8),
            textcoords="offset points",
            ha="right",
            color=colour,
        )
    ax.set(xlabel="forward pass", ylabel="positions computed so far")
    ax.set_title("Without a cache the work piles up")
    ax.margins(y=0.15)
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


def plot_measured_growth(
    measured_bytes: Sequence[int], formula_bytes: Sequence[int], *, ax: Axes | None = None
) -> Axes:
    """Draw the bytes of the cache's tensors after each forward as dots on the formula's line."""
    check_as_many(measured_bytes=measured_bytes, formula_bytes=formula_bytes)
    check_numbers("bytes", [*measured_bytes, *formula_bytes], low=0)
    ax = ax or plt.subplots()[1]
    numbers = range(1, len(measured_bytes) + 1)
    formula = [size / KIB for size in formula_bytes]
    measured = [size / KIB for size in measured_bytes]
    ax.plot(numbers, formula, color=INK, linewidth=1.2)
    ax.plot(numbers, measured, "o", color=CACHE, markersize=6)
    ax.annotate(
        "dots: measured on the tensors",
        (1, measured[0]),
        (8, -4),
        color=CACHE,
        textcoords="offset points",
        va="top",
    )
    ax.annotate(
        "line: formula",
        (numbers[-1], formula[-1]),
        (-8, 2),
        color=INK,
        textcoords="offset points",
        ha="right",
    )
    ax.set(xlabel="forward pass (1 is prefill)", ylabel="KV cache (KiB)")
    ax.set_title("The tensors hold what the formula says")
    ax.margins(y=0.15)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


def plot_cache_to_32k(
    config: PretrainedConfig,
    dtype: torch.dtype,
    batches: Sequence[int] = (1, 4, 16),
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the KV cache by formula up to 32K tokens, a line a batch, beside the weights' size."""
    sizes_gib = {batch: kv_cache_bytes(config, LONGEST, batch, dtype) / GIB for batch in batches}
    weights_gib = weight_bytes(config, dtype) / GIB
    ax = ax or plt.subplots()[1]
    ends = {}
    for batch, size_gib in sizes_gib.items():
        ax.plot([0, LONGEST], [0, size_gib], color=CACHE)
        ends[f"B = {batch}"] = (size_gib, CACHE)
    ax.axhline(weights_gib, color=WEIGHTS, linestyle="--")
    ends["weights"] = (weights_gib, "#5F5F5F")
    _label_ends(ax, ends, LONGEST)
    steps = range(0, LONGEST + 1, LONGEST // 4)
    ax.set_xticks(steps, ["0", *(f"{step // 1024}K" for step in steps[1:])])
    ax.set(xlabel="tokens in each row of the batch", ylabel="memory (GiB)", xlim=(0, LONGEST))
    ax.set_ylim(bottom=0)
    ax.set_title("Length and batch multiply")
    return ax


def plot_memory_at(
    config: PretrainedConfig, length: int, batch: int, dtype: torch.dtype, *, ax: Axes | None = None
) -> Axes:
    """Draw weights, KV cache and logits as bars, for ``batch`` rows of ``length`` tokens each.

    By formula, from the config alone. The logits are those of a prefill: of all L positions, or of
    the last one.
    """
    parts = {
        "weights": (weight_bytes(config, dtype), WEIGHTS),
        "KV cache": (kv_cache_bytes(config, length, batch, dtype), CACHE),
        "logits, all L": (logits_bytes(config, length, batch, dtype), CHOICE),
        "logits, last": (logits_bytes(config, 1, batch, dtype), CHOICE),
    }
    sizes = [size for size, _ in parts.values()]
    unit, name = (GIB, "GiB") if max(sizes) >= GIB else (MIB, "MiB")
    widths = [size / unit for size in sizes]
    ax = ax or plt.subplots(figsize=(5.4, 2.6))[1]
    bars = ax.barh(list(parts), widths, color=[colour for _, colour in parts.values()])
    ax.bar_label(bars, [in_words(size) for size in sizes], padding=3, fontsize=10)
    ax.invert_yaxis()
    ax.margins(x=0.22)
    ax.set(xlabel=f"memory ({name})")
    largest = max(parts, key=lambda part: parts[part][0])
    ax.set_title(f"B = {batch}, L = {length}: most for {largest}")
    return ax


def in_words(size: int) -> str:
    """Return a number of bytes in the unit that suits it, 1 KiB being 1024 bytes."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size} bytes"


def _label_ends(ax: Axes, ends: dict[str, tuple[float, str]], x: float) -> None:
    """Write names at the right ends of lines, pushed apart where they would overlap."""
    gap = 0.085 * max(height for height, _ in ends.values())
    lowest = 0.0
    for name, (height, colour) in sorted(ends.items(), key=lambda end: end[1][0]):
        lowest = max(height, lowest)
        ax.text(x, lowest, f" {name}", color=colour, va="center", fontsize=10)
        lowest += gap
