"""Figures of heads: which query head reads which KV head, and what each sharing costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from transformers import PretrainedConfig

from inside_generate.cache import kv_cache_bytes, kv_head_of, kv_heads, with_kv_heads
from inside_generate.guards import check_numbers
from inside_generate.memory import MIB
from inside_generate.plots.style import ATTENTION, CACHE, INK

FOOT, TOP = 0.0, 1.0  # heights of the KV heads and of the query heads


def plot_head_map(config: PretrainedConfig, *, ax: Axes | None = None) -> Axes:
    """Draw which query head reads which KV head: a line from each query head to its KV head."""
    queries, keys = config.num_attention_heads, kv_heads(config)
    reads = [kv_head_of(config, head) for head in range(queries)]
    ax = ax or plt.subplots(figsize=(5.4, 1.9))[1]
    group = queries // keys
    middles = [(head + 0.5) * group - 0.5 for head in range(keys)]  # below the query heads' middle
    for head, kv_head in enumerate(reads):
        ax.plot([head, middles[kv_head]], [TOP, FOOT], color=ATTENTION, linewidth=1.5, zorder=1)
        _head(ax, head, TOP, head, "white", INK)
    for head, middle in enumerate(middles):
        _head(ax, middle, FOOT, head, CACHE, "white")
    ax.text(-0.8, TOP, "query", ha="right", va="center", fontsize=10)
    ax.text(-0.8, FOOT, "KV", ha="right", va="center", fontsize=10, color=CACHE)
    ax.set(xlim=(-2.3, queries - 0.4), ylim=(-0.4, 1.4))
    ax.axis("off")
    ax.set_title(f"{_kind(queries, keys)}: {_count(queries, 'query')} read {_count(keys, 'KV')}")
    return ax


def plot_cache_memory_by_heads(
    config: PretrainedConfig,
    lengths: Sequence[int],
    dtype: torch.dtype,
    measured: Mapping[int, Mapping[int, int]] | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the KV cache's size against context length: as MHA, as ``config`` is, and as MQA.

    ``lengths`` in tokens, rising; one row; by formula; the config's own line is solid. Both axes
    are logarithmic, so equal factors lie equally far apart. ``measured`` gives, for a number of KV
    heads and a length in tokens, the bytes of real tensors; they are drawn as dots.
    """
    check_numbers("lengths", lengths, low=1)
    queries, own = config.num_attention_heads, kv_heads(config)
    lines = {queries: "--", 1: ":", own: "-"}
    sizes = {
        number: [
            kv_cache_bytes(with_kv_heads(config, number), length, dtype=dtype) / MIB
            for length in lengths
        ]
        for number in sorted(lines, reverse=True)
    }
    ax = ax or plt.subplots()[1]
    for number, mib in sizes.items():
        line = lines[number]
        ax.plot(lengths, mib, line, color=CACHE)
        name = f"  {_kind(queries, number)}: {number} KV"
        weight = "bold" if number == own else "normal"
        ax.text(lengths[-1], mib[-1], name, color=CACHE, va="center", fontsize=10, weight=weight)
    _dots(ax, measured or {})
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xticks(lengths, [_in_k(length) for length in lengths])
    ax.yaxis.set_major_formatter(lambda mib, _: f"{mib:g}")
    ax.minorticks_off()
    ax.set(xlabel="tokens in the cache", ylabel="KV cache (MiB)")
    ax.set_title("Fewer KV heads, less memory, at any length")
    return ax


def _dots(ax: Axes, measured: Mapping[int, Mapping[int, int]]) -> None:
    """Draw bytes of real tensors as dots, and say so in the corner that the lines leave free."""
    for sizes in measured.values():
        mib = [size / MIB for size in sizes.values()]
        ax.plot(list(sizes), mib, "o", color=INK, markersize=5)
    if measured:
        words = "dots: measured\nlines: formula"
        ax.text(0.03, 0.97, words, transform=ax.transAxes, va="top", fontsize=10)


def _in_k(length: int) -> str:
    return f"{length // 1024}K" if length >= 1024 else str(length)


def _kind(queries: int, keys: int) -> str:
    if keys == queries:
        return "MHA"
    return "MQA" if keys == 1 else "GQA"


def _count(number: int, kind: str) -> str:
    return f"{number} {kind} head{'' if number == 1 else 's'}"


def _head(ax: Axes, x: float, y: float, number: int, fill: str, ink: str) -> None:
    edge = CACHE if fill == CACHE else INK
    ax.scatter([x], [y], s=210, color=fill, edgecolors=edge, linewidths=1.2, zorder=2)
    ax.text(x, y, str(number), ha="center", va="center", fontsize=9, color=ink, zorder=3)
