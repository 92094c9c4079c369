"""The diagram of the whole path, from messages to text."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from inside_generate.plots import CACHE, CHOICE, DECODE, INK, PREFILL, WEIGHTS

# (text, colour, row, column): rows from the top; the decode loop stands beside the straight path.
STAGES = {
    "messages": ("messages", WEIGHTS, 0, 0),
    "rendered": ("chat template → rendered prompt", WEIGHTS, 1, 0),
    "inputs": ("tokenizer → input_ids, attention_mask", WEIGHTS, 2, 0),
    "prefill": ("PREFILL: one forward over the prompt\nlogits at every position", PREFILL, 3, 0),
    "choice": ("last position's logits → argmax\n→ token 1", CHOICE, 4, 0),
    "decode": ("DECODE: one token in, one forward\nargmax → next token", DECODE, 5, 0),
    "stop": ("EOS or max_new_tokens?", CHOICE, 6, 0),
    "text": ("decode ids → text", WEIGHTS, 7, 0),
    "cache": ("KV\ncache", CACHE, 4, 1),
}
WIDTH, HEIGHT = 6.4, 0.72
CENTRES = (3.3, 8.0)


def plot_whole_path(*, ax: Axes | None = None) -> Axes:
    """Draw every stage of one answer, and the loop in which decode steps go round."""
    ax = ax or plt.subplots(figsize=(5.4, 6.4))[1]
    for text, colour, row, column in STAGES.values():
        _box(ax, text, colour, row, column)
    chain = ["messages", "rendered", "inputs", "prefill", "choice", "decode", "stop", "text"]
    for above, below in zip(chain, chain[1:], strict=False):
        _arrow(ax, (CENTRES[0], _bottom(above)), (CENTRES[0], _top(below)), INK)
    right = CENTRES[0] + WIDTH / 2
    _arrow(ax, (right, _middle("prefill")), (CENTRES[1], _top("cache")), CACHE, "arc3,rad=-0.3")
    _arrow(ax, (CENTRES[1], _bottom("cache")), (right, _middle("decode")), CACHE, "arc3,rad=-0.3")
    left = CENTRES[0] - WIDTH / 2
    _arrow(ax, (left, _middle("stop")), (left, _middle("decode")), DECODE, "arc3,rad=-0.9")
    ax.text(left - 0.95, (_middle("stop") + _middle("decode")) / 2, "no", color=DECODE, ha="right")
    ax.text(CENTRES[0] + 0.15, (_bottom("stop") + _top("text")) / 2, "yes", va="center")
    ax.text(CENTRES[1], _bottom("cache") - 0.45, "reused,\n+1 token\na step", ha="center", va="top")
    ax.set(xlim=(-2.2, 9.6), ylim=(-7.6, 0.6))
    ax.axis("off")
    ax.set_title("From messages to text")
    return ax


def _middle(stage: str) -> float:
    return -float(STAGES[stage][2])


def _top(stage: str) -> float:
    return _middle(stage) + HEIGHT / 2


def _bottom(stage: str) -> float:
    return _middle(stage) - HEIGHT / 2


def _box(ax: Axes, text: str, colour: str, row: int, column: int) -> None:
    width = WIDTH if column == 0 else 1.6
    corner = (CENTRES[column] - width / 2, -row - HEIGHT / 2)
    ax.add_patch(
        FancyBboxPatch(
            corner,
            width,
            HEIGHT,
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor="white",
            edgecolor=colour,
            linewidth=2,
        )
    )
    ax.text(CENTRES[column], -row, text, ha="center", va="center", fontsize=9.5, color=INK)


def _arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str,
    connection: str = "arc3",
) -> None:
    ax.add_patch(
        FancyArrowPatch(
            start,
            end,
            connectionstyle=connection,
            color=colour,
            arrowstyle="-|>",
            mutation_scale=12,
        )
    )
