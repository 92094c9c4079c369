"""The diagram of the whole path, from messages to text."""

from __future__ import annotations

from itertools import pairwise

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from inside_generate.plots.style import CACHE, CHOICE, DECODE, INK, PREFILL, WEIGHTS

LEFT, RIGHT = 3.0, 8.15  # centres of the two columns
WIDTHS = {LEFT: 5.6, RIGHT: 3.3}
HEIGHT = 0.74

# text, colour, centre of its column, row from the top
STAGES = {
    "messages": ("messages", WEIGHTS, LEFT, 0),
    "rendered": ("chat template → rendered prompt", WEIGHTS, LEFT, 1),
    "inputs": ("tokenizer → input_ids,\nattention_mask", WEIGHTS, LEFT, 2),
    "prefill": ("PREFILL: one forward over\nthe whole prompt", PREFILL, LEFT, 3),
    "choice": ("last position's logits → argmax\n→ token 1", CHOICE, LEFT, 4),
    "stop": ("EOS or max_new_tokens?", CHOICE, LEFT, 5),
    "text": ("ids → text", WEIGHTS, LEFT, 6),
    "cache": ("KV cache", CACHE, RIGHT, 3),
    "decode": ("DECODE: one token in,\none forward, argmax", DECODE, RIGHT, 5),
}
CHAIN = ["messages", "rendered", "inputs", "prefill", "choice", "stop", "text"]


def plot_whole_path(*, ax: Axes | None = None) -> Axes:
    """Draw every stage of one answer, and the loop in which decode steps go round."""
    ax = ax or plt.subplots(figsize=(5.4, 5.4))[1]
    for text, colour, centre, row in STAGES.values():
        _box(ax, text, colour, centre, row)
    for above, below in pairwise(CHAIN):
        _arrow(ax, (LEFT, _bottom(above)), (LEFT, _top(below)), INK)
    inner, outer = LEFT + WIDTHS[LEFT] / 2, RIGHT - WIDTHS[RIGHT] / 2
    _arrow(ax, (inner, _middle("prefill")), (outer, _middle("cache")), CACHE)
    _arrow(ax, (RIGHT, _bottom("cache")), (RIGHT, _top("decode")), CACHE, arrowstyle="<|-|>")
    _arrow(ax, (inner, _middle("stop") + 0.2), (outer, _middle("decode") + 0.2), DECODE)
    _arrow(ax, (outer, _middle("decode") - 0.2), (inner, _middle("stop") - 0.2), DECODE)
    ax.text(RIGHT - 0.2, _middle("choice"), "read,\n+1 token", ha="right", va="center", fontsize=9)
    ax.text((inner + outer) / 2, _top("stop") - 0.1, "no", color=DECODE, ha="center", fontsize=9)
    ax.text(LEFT + 0.2, (_bottom("stop") + _top("text")) / 2, "yes", va="center", fontsize=9)
    ax.set(xlim=(0, 10), ylim=(-6.5, 0.5))
    ax.axis("off")
    ax.set_title("From messages to text")
    return ax


def _middle(stage: str) -> float:
    return -float(STAGES[stage][3])


def _top(stage: str) -> float:
    return _middle(stage) + HEIGHT / 2


def _bottom(stage: str) -> float:
    return _middle(stage) - HEIGHT / 2


def _box(ax: Axes, text: str, colour: str, centre: float, row: int) -> None:
    width = WIDTHS[centre]
    corner = (centre - width / 2, -row - HEIGHT / 2)
    shape = "round,pad=0,rounding_size=0.12"
    ax.add_patch(FancyBboxPatch(corner, width, HEIGHT, shape, fc="white", ec=colour, linewidth=2))
    ax.text(centre, -row, text, ha="center", va="center", fontsize=9.5, color=INK)


def _arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str,
    arrowstyle: str = "-|>",
) -> None:
    ax.add_patch(
        FancyArrowPatch(start, end, color=colour, arrowstyle=arrowstyle, mutation_scale=12)
    )
