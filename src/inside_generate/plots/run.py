"""Figures of one run: its time line, and mask and cache as they grow."""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.ticker import MaxNLocator

from inside_generate.guards import check_numbers, check_sizes
from inside_generate.plots.style import CACHE, DECODE, PREFILL
from inside_generate.trace import Trace


def plot_timeline(trace: Trace, *, ax: Axes | None = None) -> Axes:
    """Draw one run as bars on a time line: prefill first, then one bar a decode step."""
    check_numbers("seconds", [step.seconds for step in trace.steps], low=0)
    ax = ax or plt.subplots(figsize=(5.4, 2.2))[1]
    start_ms = 0.0
    for step in trace.steps:
        colour = PREFILL if step.phase == "prefill" else DECODE
        hatch = "//" if step.phase == "prefill" else None
        width_ms = 1000 * step.seconds
        ax.barh(0, width_ms, left=start_ms, color=colour, edgecolor="white", hatch=hatch)
        start_ms += width_ms
    first_ms = 1000 * trace.ttft_s
    ax.text(0, 0.5, "prefill → token 1", color=PREFILL, ha="left")
    if len(trace.steps) > 1:
        ax.text(first_ms, -0.5, "decode: a token a bar", color=DECODE, ha="left", va="top")
    ax.set(xlabel="time (ms)", yticks=[], ylim=(-0.9, 0.9))
    ax.set_title("One prefill, then one step a token")
    ax.spines["left"].set_visible(False)
    return ax


def plot_cache_growth(trace: Trace, bytes_per_token: int, *, ax: Axes | None = None) -> Axes:
    """Draw what the KV cache holds after each forward: tokens, and the KiB they take."""

    def to_kib(tokens: Any) -> Any:
        return tokens * bytes_per_token / 1024

    def to_tokens(kib: Any) -> Any:
        return kib * 1024 / bytes_per_token

    numbers = [step.number for step in trace.steps]
    lengths = [step.cache_length for step in trace.steps]
    check_numbers("cache lengths", lengths, low=1)
    check_sizes(1, bytes_per_token=bytes_per_token)
    ax = ax or plt.subplots()[1]
    ax.step(numbers, lengths, where="mid", color=CACHE)
    ax.plot(numbers, lengths, "o", color=CACHE, markersize=4)
    ax.text(numbers[0], lengths[0], f"   after prefill: {lengths[0]}", color=CACHE, va="top")
    end = f"at the end: {lengths[-1]}"
    place = (numbers[-1], lengths[-1])
    ax.annotate(end, place, (0, 5), textcoords="offset points", ha="right", color=CACHE)
    ax.set(xlabel="forward pass (1 is prefill)", ylabel="tokens in the cache")
    ax.set_title("The cache grows by one token a step")
    ax.margins(y=0.15)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    kib = ax.secondary_yaxis("right", functions=(to_kib, to_tokens))
    kib.set_ylabel("KiB of keys and values")
    return ax


def plot_mask_growth(trace: Trace, *, ax: Axes | None = None) -> Axes:
    """Draw, for each forward, which columns its input has and which ones the cache gives."""
    check_numbers("mask lengths", [step.mask_length for step in trace.steps], low=1)
    ax = ax or plt.subplots(figsize=(5.4, 1.4 + 0.16 * len(trace.steps)))[1]
    width = trace.steps[-1].mask_length
    cells = [
        [0] * (step.mask_length - step.input_shape[1])  # read from the cache
        + [1 if step.phase == "prefill" else 2] * step.input_shape[1]  # new in this forward
        + [math.nan] * (width - step.mask_length)  # not there yet
        for step in trace.steps
    ]
    ax.pcolormesh(
        cells, cmap=ListedColormap([CACHE, PREFILL, DECODE]), vmin=0, vmax=2, edgecolors="white"
    )
    ax.invert_yaxis()
    ax.set(xlabel="column of the attention mask", ylabel="forward pass")
    ax.set_yticks([row + 0.5 for row in range(len(cells))], [str(s.number) for s in trace.steps])
    ax.tick_params(axis="y", labelsize=8)
    ax.set_title("The mask covers the cache and what is new")
    swatches = [plt.Rectangle((0, 0), 1, 1, color=c) for c in (PREFILL, CACHE, DECODE)]
    names = ["prompt, new in prefill", "read from the cache", "the one new token"]
    ax.figure.legend(swatches, names, loc="outside lower center", ncols=2, fontsize=9)
    return ax
