"""Figures of work and time: prefill against the prompt, a decode step against the context."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from transformers import PretrainedConfig

from inside_generate.flops import attention_flops, matrix_flops
from inside_generate.guards import check_as_many, check_numbers
from inside_generate.plots.style import (
    ATTENTION,
    CACHE,
    DECODE,
    INK,
    PREFILL,
    WEIGHTS,
    write_beside,
)
from inside_generate.sweeps import LineFit, PrefillFit


def plot_prefill_flops(
    config: PretrainedConfig, lengths: Sequence[int], *, ax: Axes | None = None
) -> Axes:
    """Draw the work of prefill against the prompt's length, in two areas that add up."""
    check_numbers("lengths", lengths, low=0)
    matrices = np.array([matrix_flops(config, n) / 1e12 for n in lengths])
    total = matrices + np.array([attention_flops(config, n, n) / 1e12 for n in lengths])
    ax = ax or plt.subplots()[1]
    ax.fill_between(lengths, 0, matrices, color=PREFILL, alpha=0.6, linewidth=0)
    ax.fill_between(
        lengths, matrices, total, fc=ATTENTION, ec="white", alpha=0.6, hatch="//", linewidth=0
    )
    _between(ax, lengths[-1], 0, matrices[-1], "weights: ∝ L")
    _between(ax, lengths[-1], matrices[-1], total[-1], "attention: ∝ L²")
    ax.set(xlabel="prompt length L (tokens)", ylabel="work of prefill (TFLOP)")
    ax.set_title("Attention's work overtakes the rest")
    ax.margins(x=0)
    ax.set_ylim(bottom=0)
    return ax


def plot_prefill_time(
    lengths: Sequence[int], seconds: Sequence[float], fit: PrefillFit, *, ax: Axes | None = None
) -> Axes:
    """Draw measured times of prefill over the parts of the fit: constant, linear, quadratic."""
    _check_times(lengths, seconds, at_least=2)
    check_numbers("the fit's parts", fit.parts(max(lengths)), low=0)
    ax = ax or plt.subplots()[1]
    x = np.linspace(0, max(lengths), 100)
    constant, linear, quadratic = (1e3 * np.array([fit.parts(n)[i] for n in x]) for i in range(3))
    edges = np.cumsum([0 * x, constant, linear, quadratic], axis=0)
    areas = (("constant", WEIGHTS, None), ("∝ L", PREFILL, None), ("∝ L²", ATTENTION, "//"))
    for low, high, (name, colour, hatch) in zip(edges[:-1], edges[1:], areas, strict=True):
        ax.fill_between(x, low, high, fc=colour, ec="white", alpha=0.6, hatch=hatch, linewidth=0)
        _between(ax, x[-1], low[-1], high[-1], name, tallest=edges[-1][-1])
    if 0 < quadratic[-1] < 0.06 * edges[-1][-1]:  # too thin for its name
        tip, base = (0.95 * x[-1], 0.95 * edges[-1][-1]), (0.65 * x[-1], 0.98 * edges[-1][-1])
        ax.annotate("∝ L²", tip, base, color=INK, arrowprops={"arrowstyle": "-", "color": INK})
    ax.plot(lengths, 1e3 * np.asarray(seconds), "o", color=INK)
    write_beside(ax, "measured", (lengths[-2], 1e3 * seconds[-2]), (-8, 8), ha="right")
    ax.set(xlabel="prompt length L (tokens)", ylabel="time of prefill (ms)")
    ax.set_title("A longer prompt takes longer to read")
    tallest = max(edges[-1][-1], 1e3 * max(seconds)) or 1.0  # an axis needs a length
    ax.set(xlim=(0, max(lengths) * 1.03), ylim=(0, 1.12 * tallest))
    return ax


def plot_decode_time(
    context_lengths: Sequence[int],
    seconds: Sequence[float],
    fit: LineFit,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw measured times of a decode step over its two parts: constant, and growing."""
    _check_times(context_lengths, seconds)
    check_numbers("the fit's parts", [fit.constant_s, fit.slope_s_per_token])
    ax = ax or plt.subplots()[1]
    x = np.array([0, max(context_lengths)])
    constant = np.full(2, 1e3 * fit.constant_s)
    total = 1e3 * np.array([fit.seconds(n) for n in x])
    ax.fill_between(x, 0, constant, color=WEIGHTS, alpha=0.6)
    ax.fill_between(x, constant, total, fc=CACHE, ec="white", alpha=0.6, hatch="//", linewidth=0)
    ax.plot(context_lengths, 1e3 * np.asarray(seconds), "o", color=DECODE)
    write_beside(ax, "measured", (context_lengths[-1], 1e3 * seconds[-1]), (0, 8), ha="right")
    _between(ax, x[-1], 0, constant[-1], "the same for every step")
    low, room = constant[-1], 0.6 * (total[-1] - constant[-1])  # the points lie along the top
    _between(ax, x[-1], low, low + room, "grows with the cache", tallest=0.6 * total[-1])
    ax.set(xlabel="tokens in the cache", ylabel="time of a decode step (ms)")
    ax.set_title("A decode step: constant + slope · context")
    tallest = 1e3 * max(*seconds, fit.seconds(x[-1])) or 1.0
    ax.set(xlim=(0, max(x) * 1.03), ylim=(0, 1.15 * tallest))
    return ax


def plot_ttft_tpot(
    prompt_lengths: Sequence[int],
    ttft_s: Sequence[float],
    tpot_s: Sequence[float | None],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw both times of some runs against the length of their prompts.

    A run of a single token has no TPOT, ``None``: its dot is left out.
    """
    check_as_many(prompt_lengths=prompt_lengths, tpot_s=tpot_s)
    decoded = [length for length, s in zip(prompt_lengths, tpot_s, strict=True) if s is not None]
    known_tpot_s = [s for s in tpot_s if s is not None]
    _check_times(prompt_lengths, ttft_s)
    _check_times(decoded, known_tpot_s)
    ax = ax or plt.subplots()[1]
    _two_times(ax, (prompt_lengths, ttft_s), (decoded, known_tpot_s))
    ax.set_xlabel("prompt length L (tokens)")
    ax.set_title("A long prompt delays the first token")
    return ax


def plot_times_by_rows(
    rows: Sequence[int],
    ttft_s: Sequence[float],
    tpot_s: Sequence[float],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw both times against the rows of a batch: what each of its users waits for."""
    _check_times(rows, ttft_s)
    _check_times(rows, tpot_s)
    ax = ax or plt.subplots()[1]
    _two_times(ax, (rows, ttft_s), (rows, tpot_s))
    ax.set_xlabel("rows in the batch")
    ax.set_xticks(list(rows))
    ax.set_title("What each row of a batch waits for")
    return ax


def _two_times(
    ax: Axes,
    ttft: tuple[Sequence[int], Sequence[float]],
    tpot: tuple[Sequence[int], Sequence[float]],
) -> None:
    """Draw TTFT and TPOT, each as what it is drawn against and its seconds."""
    for name, (x, seconds), colour, marker in (
        ("TTFT", ttft, PREFILL, "o-"),
        ("TPOT", tpot, DECODE, "s--"),
    ):
        milliseconds = 1e3 * np.asarray(seconds)
        ax.plot(x, milliseconds, marker, color=colour)
        end = (x[-1], milliseconds[-1])
        ax.annotate(name, end, (8, 0), textcoords="offset points", color=colour, va="center")
    ax.set_ylabel("time (ms)")
    ax.set_xlim(0, max(ttft[0]) * 1.15)
    ax.set_ylim(0, 1.1e3 * max(*ttft[1], *tpot[1]) or 1.0)  # an axis needs a length


def _check_times(lengths: Sequence[int], seconds: Sequence[float], at_least: int = 1) -> None:
    check_as_many(lengths=lengths, seconds=seconds)
    check_numbers("lengths", lengths, at_least, low=1)
    check_numbers("seconds", seconds, at_least, low=0)


def _between(
    ax: Axes, x: float, low: float, high: float, name: str, tallest: float | None = None
) -> None:
    """Write an area's name at its right end; an area too thin for words says nothing."""
    if tallest is not None and high - low < 0.06 * tallest:
        return
    write_beside(ax, name, (x, (low + high) / 2), (-8, 0), va="center", ha="right")
