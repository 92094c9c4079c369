"""Figures past one process: a layer cut over ranks, a server under load, a cache in blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from inside_generate.guards import check_as_many, check_numbers, check_sizes
from inside_generate.plots.style import CACHE, DECODE, INK, PREFILL, WEIGHTS

GAP = 0.18  # between two drawings, of the widest one


def plot_cut(
    weights: Mapping[str, tuple[Sequence[int], int | None]],
    ranks: int,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw matrices in proportion, each cut along one axis; what rank 0 holds is filled.

    ``weights``: for each name the shape, [rows, columns], and the axis that is cut or ``None``.
    """
    check_sizes(2, ranks=ranks)
    if not weights:
        raise ValueError("there is no matrix to draw")
    ax = ax or plt.subplots(figsize=(5.4, 3.0))[1]
    tallest = max(shape[0] for shape, _ in weights.values())
    left, gap = 0.0, GAP * max(shape[1] for shape, _ in weights.values())
    for name, (shape, axis) in weights.items():
        rows, columns = shape
        _draw_cut(ax, left, rows, columns, axis, ranks)
        ax.text(left + columns / 2, -0.03 * tallest, name, ha="right", va="top", rotation=50)
        left += columns + gap
    ax.set(xlim=(-gap, left), ylim=(-0.6 * tallest, 1.03 * tallest), aspect="equal")
    ax.set_axis_off()
    ax.set_title(f"What one of {ranks} ranks holds of a layer (filled)")
    return ax


def _draw_cut(ax: Axes, left: float, rows: int, columns: int, axis: int | None, ranks: int) -> None:
    """Draw one matrix; rank 0 has its first rows (axis 0), its first columns (1), or all."""
    height = rows / ranks if axis == 0 else rows
    width = columns / ranks if axis == 1 else columns
    whole = plt.Rectangle((left, 0), columns, rows, fc="white", ec=WEIGHTS)
    own = plt.Rectangle((left, rows - height), width, height, fc=WEIGHTS, ec=INK, hatch="//")
    own.set_alpha(0.7)
    ax.add_patch(whole)
    ax.add_patch(own)


def plot_waiting(
    sent_s: Sequence[float],
    arrivals_s: Sequence[Sequence[float]],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw each client's wait, hatched, and a mark for each piece of its answer as it came.

    ``sent_s``: when each asked. ``arrivals_s``: for each, when its pieces came after that.
    """
    check_as_many(sent_s=sent_s, arrivals_s=arrivals_s)
    start = min(check_numbers("sent_s", sent_s))
    for arrivals in arrivals_s:
        check_numbers("arrivals_s", arrivals, low=0)
    order = sorted(range(len(sent_s)), key=lambda n: sent_s[n] + arrivals_s[n][0])
    ax = ax or plt.subplots(figsize=(5.4, 1.2 + 0.3 * len(order)))[1]
    for row, n in enumerate(order):
        begin, came = sent_s[n] - start, sent_s[n] - start + np.array(arrivals_s[n])
        ax.barh(row, arrivals_s[n][0], left=begin, height=0.6, fc="white", ec=INK, hatch="////")
        ax.plot(came, [row] * len(came), "|", color=DECODE, ms=11, mew=2)
    ax.set_yticks(range(len(order)), [f"{row + 1}" for row in range(len(order))])
    ax.set(xlabel="seconds since the first request", ylabel="client")
    ax.set_title("Hatched: waiting for the first token")
    ax.set_xlim(0, None)
    ax.invert_yaxis()
    return ax


def plot_latency(
    clients: Sequence[int],
    ttft_s: Sequence[float],
    gap_s: Sequence[float],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw two waits against the clients: for the first token, and from one token to the next."""
    check_as_many(clients=clients, ttft_s=ttft_s, gap_s=gap_s)
    for name, values in {"clients": clients, "ttft_s": ttft_s, "gap_s": gap_s}.items():
        check_numbers(name, values, low=1e-9)
    ax = ax or plt.subplots()[1]
    for values, style, colour, name in (
        (ttft_s, "o-", PREFILL, "first token"),
        (gap_s, "s--", DECODE, "next token"),
    ):
        ax.plot(clients, values, style, color=colour)
        end = (clients[-1], values[-1])
        ax.annotate(name, end, (8, 0), textcoords="offset points", color=colour, va="center")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_xticks(list(clients), [str(n) for n in clients])
    ax.minorticks_off()
    ax.set(xlabel="clients at once", ylabel="median wait (s)")
    ax.set_xlim(0.9 * min(clients), 2.1 * max(clients))
    ax.set_title("Each client's wait, with more clients")
    return ax


def plot_slots(
    held: Mapping[str, Sequence[int]],
    filled: Mapping[str, Sequence[int]],
    capacity: int,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw, for each way to give out memory, the share of the slots with a token in them by step.

    ``held`` and ``filled``: for each way, slots by step; ``capacity``: slots there are.
    """
    check_sizes(1, capacity=capacity)
    if not filled or set(held) != set(filled):
        raise ValueError(f"as many are needed of each, not {sorted(held)} and {sorted(filled)}")
    ax = ax or plt.subplots()[1]
    styles = zip(filled, ("-", "--", ":"), (CACHE, DECODE, INK), strict=False)
    for name, line, colour in styles:
        check_as_many(held=held[name], filled=filled[name])
        share = 100 * np.array(filled[name]) / capacity
        steps = np.arange(1, len(share) + 1)
        ax.plot(steps, share, line, color=colour, lw=2)
        highest = int(share.argmax())
        place = (steps[highest], share[highest])
        ax.annotate(name, place, (5, 5), textcoords="offset points", color=colour)
    ax.set(xlabel="step", ylabel="slots with a token in them (%)", ylim=(0, 115))
    ax.set_title("Blocks on demand: more in the same memory")
    return ax
