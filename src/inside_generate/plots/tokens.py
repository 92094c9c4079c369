"""Figures of tokens and of the scores that choose between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from inside_generate.guards import check_as_many, check_numbers, check_probabilities
from inside_generate.plots.style import CHOICE, INK, PREFILL, label
from inside_generate.trace import Candidate


def plot_next_tokens(candidates: Sequence[Candidate], *, ax: Axes | None = None) -> Axes:
    """Draw the logits of the best candidates as bars, the chosen one filled.

    Logits, not probabilities: softmax over five candidates would not be softmax over all.
    """
    logits = check_numbers("logits", [candidate.logit for candidate in candidates])
    ax = ax or plt.subplots()[1]
    labels = [label(candidate.text) for candidate in candidates]
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
    check_as_many(tokens=tokens, probabilities=probabilities)
    probabilities = check_probabilities("probabilities", probabilities)
    ax = ax or plt.subplots(figsize=(5.4, 1.2 + 0.2 * len(tokens)))[1]
    rows = range(len(tokens))
    ax.barh(rows, probabilities, color=PREFILL)
    ax.set_yticks(rows, [label(token) for token in tokens], family="monospace", fontsize=9)
    ax.invert_yaxis()
    ax.set(xlim=(0, 1), xlabel="probability of the token that really follows")
    ax.set_title("What each position gave to the next token")
    return ax


def plot_position_distributions(
    tokens: Sequence[str],
    probabilities: Sequence[Sequence[float]],
    guesses: Sequence[str],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw what each position expects next: its most probable tokens, end to end.

    ``tokens[i]`` is read at position i; ``probabilities[i]`` are those of its best next tokens,
    best first; ``guesses[i]`` is the best one's text. All other tokens share what a row leaves.
    """
    check_as_many(tokens=tokens, probabilities=probabilities, guesses=guesses)
    check_probabilities("probabilities", [sum(row) for row in probabilities])
    check_probabilities("probabilities", [p for row in probabilities for p in row])
    ax = ax or plt.subplots(figsize=(5.4, 1.2 + 0.2 * len(tokens)))[1]
    for row, (best_first, guess) in enumerate(zip(probabilities, guesses, strict=True)):
        start = 0.0
        for rank, p in enumerate(best_first):
            ax.barh(row, p, left=start, color=CHOICE, alpha=0.9**rank / (1 + rank), edgecolor=INK)
            start += p
        ax.text(1.02, row, label(guess), va="center", family="monospace", fontsize=9)
    rows = range(len(tokens))
    ax.set_yticks(rows, [label(token) for token in tokens], family="monospace", fontsize=9)
    ax.invert_yaxis()
    ax.set(xlim=(0, 1), xlabel="probability of the next token", ylabel="token read")
    ax.set_title("Some positions are sure, others are open")
    return ax


def plot_two_distributions(
    tokens: Sequence[str],
    distributions: Mapping[str, Sequence[float]],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw how probable the same next tokens are in two contexts, side by side.

    ``distributions`` maps the name of each context to one probability a token.
    """
    _check_distributions(tokens, distributions)
    ax = ax or plt.subplots(figsize=(5.4, 1.6 + 0.5 * len(tokens)))[1]
    looks = ((-0.2, CHOICE, None), (0.2, "white", "//"))
    for (shift, colour, hatch), (name, p) in zip(looks, distributions.items(), strict=True):
        rows = [row + shift for row in range(len(tokens))]
        bars = ax.barh(rows, p, 0.4, color=colour, edgecolor=CHOICE, hatch=hatch, label=name)
        ax.bar_label(bars, fmt="%.3f", padding=3, fontsize=9)
    ax.set_yticks(range(len(tokens)), [label(token) for token in tokens], family="monospace")
    ax.invert_yaxis()
    ax.set(xlim=(0, 1.15), xlabel="probability of the next token")
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1])
    ax.set_title("Another context, another next token")
    ax.figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", fontsize=9)
    return ax


def _check_distributions(
    tokens: Sequence[str], distributions: Mapping[str, Sequence[float]]
) -> None:
    lengths = {name: len(probabilities) for name, probabilities in distributions.items()}
    if len(lengths) != 2 or set(lengths.values()) != {len(tokens)}:
        raise ValueError(f"two contexts with {len(tokens)} probabilities each, not {lengths}")
    for name, probabilities in distributions.items():
        check_probabilities(f"probabilities of {name!r}", probabilities)
