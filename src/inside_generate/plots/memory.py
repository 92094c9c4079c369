"""Figures of memory: what a run consists of, step by step, and what all logits take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from transformers import PretrainedConfig

from inside_generate.cache import kv_cache_bytes, logits_bytes, weight_bytes
from inside_generate.guards import check_as_many, check_numbers
from inside_generate.memory import MIB
from inside_generate.plots.style import CACHE, CHOICE, DECODE, INK, PREFILL, WEIGHTS, write_beside

_COLOURS = {"weights": WEIGHTS, "KV cache": CACHE, "logits": CHOICE, "activations": PREFILL}


def plot_memory_parts(
    predicted: Mapping[str, int], measured: Mapping[str, int], *, ax: Axes | None = None
) -> Axes:
    """Draw each part's bytes, as predicted and as measured, under the same names."""
    if list(predicted) != list(measured):
        raise ValueError(
            f"the parts differ: {list(predicted)} predicted, {list(measured)} measured"
        )
    sizes = check_numbers("bytes", [*predicted.values(), *measured.values()], low=0)
    ax = ax or plt.subplots()[1]
    longest = max(sizes) / MIB or 1.0  # an axis needs a length
    for row, name in enumerate(predicted):
        pairs = ((-0.2, predicted[name], 0.45, "//"), (0.2, measured[name], 1.0, None))
        for shift, size, strength, hatch in pairs:
            colour = _COLOURS.get(name, INK)
            ax.barh(row + shift, size / MIB, 0.36, color=colour, alpha=strength, hatch=hatch)
            word = "predicted" if hatch else "measured"
            ax.text(
                size / MIB + 0.015 * longest,
                row + shift,
                f"{size / MIB:.2f} {word}",
                va="center",
                fontsize=9,
            )
    ax.set_yticks(range(len(predicted)), list(predicted))
    ax.invert_yaxis()
    ax.set_xlim(0, 1.45 * longest)
    ax.set_xlabel("MiB")
    ax.set_title("Predicted first, then measured")
    return ax


def plot_logits_memory(
    config: PretrainedConfig, lengths: Sequence[int], *, ax: Axes | None = None
) -> Axes:
    """Draw all rows of logits, the KV cache and the weights against the prompt's length."""
    check_numbers("lengths", lengths, low=0)
    all_rows = [logits_bytes(config, length) / MIB for length in lengths]
    cache = [kv_cache_bytes(config, length) / MIB for length in lengths]
    last_row = [logits_bytes(config, 1) / MIB] * len(lengths)
    ax = ax or plt.subplots()[1]
    for name, mib, colour, style in (
        ("logits, all rows", all_rows, CHOICE, "-"),
        ("KV cache", cache, CACHE, "--"),
        ("logits, last row", last_row, INK, ":"),
    ):
        ax.plot(lengths, mib, style, color=colour)
        at = len(lengths) // 2 if mib is last_row else -1
        ink = INK if colour == CHOICE else colour
        write_beside(ax, name, (lengths[at], mib[at]), (0, 5), color=ink, ha="right", va="bottom")
    weights = weight_bytes(config) / MIB
    ax.axhline(weights, color=WEIGHTS, linestyle="-.")
    write_beside(ax, "weights", (lengths[0], weights), (0, 5), color=WEIGHTS, va="bottom")
    ax.set(xlabel="prompt length L (tokens)", ylabel="MiB in 2-byte numbers")
    ax.set_title("All logits outgrow cache and weights")
    ax.set_ylim(0, 1.15 * max(weights, *all_rows))
    return ax


def plot_answer_memory(
    predicted: Sequence[int], measured: Sequence[int], *, ax: Axes | None = None
) -> Axes:
    """Draw what an answer holds beside the weights at the peak of each of its forwards.

    One number of bytes for each token: the first is prefill's, the others are decode steps'.
    """
    check_as_many(predicted=predicted, measured=measured)
    sizes = check_numbers("bytes", [*predicted, *measured], at_least=4, low=0)
    tokens = range(1, len(measured) + 1)
    ax = ax or plt.subplots()[1]
    expected, found = ([size / MIB for size in row] for row in (predicted, measured))
    ax.bar(tokens, expected, 0.7, fc="white", ec=INK, hatch="//", alpha=0.5)
    ax.plot(tokens[:1], found[:1], "o", color=PREFILL)
    ax.plot(tokens[1:], found[1:], "s", color=DECODE)
    end_of_bar = (1.35, found[0])
    ax.annotate(
        "prefill", end_of_bar, (4, 0), textcoords="offset points", color=PREFILL, va="center"
    )
    last = (tokens[-1], found[-1])
    ax.annotate("decode", last, (0, 8), textcoords="offset points", color=DECODE, ha="right")
    ax.set(xlabel="token of the answer", ylabel="MiB beside the weights")
    ax.set_title("Peak of each forward: points over prediction")
    ax.set_ylim(0, 1.15 * max(sizes) / MIB or 1.0)  # an axis needs a length
    return ax
