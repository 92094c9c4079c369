"""Figures of tokens and of the scores that choose between them."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from inside_generate.plots.style import CHOICE, PREFILL, label
from inside_generate.trace import Candidate


def plot_next_tokens(candidates: Sequence[Candidate], *, ax: Axes | None = None) -> Axes:
    """Draw the logits of the best candidates as bars, the chosen one filled.

    Logits, not probabilities: softmax over five candidates would not be softmax over all.
    """
    ax = ax or plt.subplots()[1]
    labels = [label(candidate.text) for candidate in candidates]
    logits = [candidate.logit for candidate in candidates]
    colours = [CHOICE] + ["white"] * (len(candidates) - 1)
    bars = ax.barh(range(len(labels)), logits, color=colours, edgecolor=CHOICE, linewidth=1.5)
    ax.bar_label(bars, fmt="%.2f", padding=3)
    ax.set_yticks(range(len(labels)), labels, family="monospace")
    ax.invert_yaxis()
    ax.set(xlabel="logit (no unit)", title="Greedy takes the highest logit")
    ax.margins(x=0.15)
    return ax


def plot_prompt_predictions(
    tokens: Sequence[str], probabilities: Sequence[float], *, ax: Axes | None = None
) -> Axes:
    """Draw the probability that each prompt position gave to the token that really follows it.

    ``tokens[i]`` is the token that follows, ``probabilities[i]`` what position i gave to it.
    """
    ax = ax or plt.subplots(figsize=(5.4, 1.2 + 0.2 * len(tokens)))[1]
    rows = range(len(tokens))
    ax.barh(rows, probabilities, color=PREFILL)
    ax.set_yticks(rows, [label(token) for token in tokens], family="monospace", fontsize=9)
    ax.invert_yaxis()
    ax.set(xlim=(0, 1), xlabel="probability of the token that really follows")
    ax.set_title("Every prompt position predicts its next token")
    return ax
