"""Figures of the choice of a token: two choices in a row as a tree, and what temperature does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes

from inside_generate.guards import check_numbers, check_probabilities
from inside_generate.plots.style import CHOICE, INK, WEIGHTS, label
from inside_generate.trace import Candidate

# Each first token with its probability, and its best next tokens with theirs, given the first.
Tree = Mapping[str, tuple[float, Mapping[str, float]]]

ROOT, FIRST, SECOND = 0.0, 1.0, 2.0  # where the tokens of each step stand
OTHERS = 5  # thin lines that stand for all continuations but the best


def plot_joint_tree(tree: Tree, *, ax: Axes | None = None) -> Axes:
    """Draw two choices in a row: each first token with its best continuation, and their product.

    Greedy goes where the first probability is highest; the most probable pair may lie elsewhere.
    Only each first token's best continuation is spelled out; the others are a fan of thin lines
    with the highest probability among them.
    """
    check_probabilities("first tokens' probabilities", [p for p, _ in tree.values()])
    for first, (_, continuations) in tree.items():
        check_probabilities(f"probabilities after {first!r}", continuations.values())
    ax = ax or plt.subplots(figsize=(5.4, 1.0 + 1.05 * len(tree)))[1]
    greedy = max(tree, key=lambda first: tree[first][0])
    best = max(tree, key=lambda first: tree[first][0] * _best_next(tree, first)[1])
    for row, first in enumerate(tree):
        _branch(ax, tree, first, -float(row), first == greedy, first == best)
    ax.text(ROOT, -(len(tree) - 1) / 2, "prompt ", ha="right", va="center")
    ax.set(xlim=(-0.35, 3.1), ylim=(0.45 - len(tree), 0.55), xticks=[], yticks=[])
    ax.set_xlabel("at each line: the probability given what stands before", fontsize=10)
    ax.set_title("Best steps make the best pair" if greedy == best else "Best step, not best pair")
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    return ax


def _branch(ax: Axes, tree: Tree, first: str, y: float, greedy: bool, best: bool) -> None:
    """Draw one first token, its best continuation, the fan of others, and the product."""
    p_first = tree[first][0]
    second, p_second = _best_next(tree, first)
    colour, style, width = WEIGHTS, "-", 1.2
    if greedy or best:
        colour, style, width = (CHOICE, "-", 3.0) if greedy else (INK, "--", 2.2)
    root = -(len(tree) - 1) / 2
    look: dict[str, Any] = {"color": colour, "linestyle": style, "linewidth": width, "zorder": 2}
    ax.plot([ROOT, FIRST - 0.2], [root, y], **look)
    ax.plot([FIRST + 0.2, SECOND - 0.25], [y, y], **look)
    _fan(ax, tree, first, y)
    _text(ax, FIRST, y, _token(first), ha="center")
    _text(ax, SECOND, y, _token(second), ha="center")
    _text(ax, (ROOT + FIRST - 0.2) / 2, (root + y) / 2, f"{p_first:.2f}", ha="center", fontsize=10)
    _text(ax, (FIRST + SECOND) / 2, y, f"{p_second:.2f}", ha="center", fontsize=10)
    ax.text(3.1, y, f"together {p_first * p_second:.3f}", ha="right", va="center", fontsize=10)
    names = [name for name, is_it in (("greedy", greedy), ("most probable", best)) if is_it]
    ax.text(3.1, y + 0.2, " and ".join(names), ha="right", va="bottom", weight="bold", fontsize=10)


def _fan(ax: Axes, tree: Tree, first: str, y: float) -> None:
    others = sorted(tree[first][1].values(), reverse=True)[1:]
    if not others:
        return
    for line in range(OTHERS):
        end = y - 0.16 - 0.08 * line
        ax.plot([FIRST + 0.2, SECOND - 0.25], [y, end], color=WEIGHTS, linewidth=0.6, zorder=1)
    words = f"others: at most {others[0]:.2f} each"
    ax.text(SECOND - 0.2, y - 0.32, words, ha="left", va="center", fontsize=9, color=INK)


def _best_next(tree: Tree, first: str) -> tuple[str, float]:
    continuations = tree[first][1]
    best = max(continuations, key=lambda second: continuations[second])
    return best, continuations[best]


def _token(text: str) -> str:
    return text if text.isalnum() and text.isascii() else label(text)


def _text(ax: Axes, x: float, y: float, text: str, **look: Any) -> None:
    """Write over a line, which ends behind the words."""
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    ax.text(x, y, text, va="center", zorder=3, bbox=box, **look)


def plot_temperature(
    candidates: Sequence[Candidate],
    logits: torch.Tensor,
    temperature: float,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the candidates' probabilities at a temperature, with those at 1 as an outline.

    ``logits`` is the whole row, [V]: softmax runs over all of it, not over the candidates alone.
    """
    (temperature,) = check_numbers("temperature", [temperature])
    if not temperature > 0:
        raise ValueError(f"a temperature must be above 0, not {temperature!r}")
    ids = [candidate.token_id for candidate in candidates]
    now, at_one = (_probabilities(logits, ids, t) for t in (temperature, 1.0))
    ax = ax or plt.subplots(figsize=(5.4, 1.4 + 0.36 * len(candidates)))[1]
    rows = range(len(ids))
    ax.barh(rows, now, height=0.6, color=CHOICE)
    ax.barh(rows, at_one, height=0.8, facecolor="none", edgecolor=INK, linewidth=1.2)
    for row, (filled, outline) in enumerate(zip(now, at_one, strict=True)):
        ax.text(max(filled, outline) + 0.015, row, f"{filled:.3f}", va="center")
    key = [
        f"all other tokens together: {max(0.0, 1 - sum(now)):.3f}",
        f"filled, with the number: at temperature {temperature:g}",
        "outline: at temperature 1",
    ]
    ax.text(0.98, 0.04, "\n".join(key), ha="right", va="bottom", fontsize=9, transform=ax.transAxes)
    ax.set_yticks(rows, [label(candidate.text) for candidate in candidates], family="monospace")
    ax.invert_yaxis()
    ax.set(xlim=(0, 1.12), xlabel="probability", title=_effect(temperature))
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1])
    return ax


def _probabilities(logits: torch.Tensor, ids: Sequence[int], temperature: float) -> list[float]:
    """Return the ids' shares of softmax. The highest logit becomes 0, so none can overflow."""
    if logits.dim() != 1 or not len(logits):
        raise ValueError(f"logits must be one row, [V] with V ≥ 1, not {list(logits.shape)}")
    check_numbers("candidates' ids", ids, low=0, high=len(logits) - 1)
    scaled = (logits.double() - logits.max()) / temperature
    return check_probabilities("probabilities", scaled.softmax(dim=-1)[list(ids)].tolist())


def _effect(temperature: float) -> str:
    if temperature == 1:
        return "Temperature 1 changes nothing"
    effect = "sharpens" if temperature < 1 else "flattens"
    return f"Temperature {temperature:g} {effect}, the order stays"
