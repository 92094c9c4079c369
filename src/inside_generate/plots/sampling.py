"""Figures of sampling: what each filter keeps, how often tokens are drawn, and what beams reach."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from inside_generate.guards import check_as_many, check_numbers, check_probabilities
from inside_generate.plots.style import CHOICE, INK, WEIGHTS, label

LINES = ("-", "--", ":", "-.")


def plot_kept(
    tokens: Sequence[str],
    probabilities: Sequence[float],
    kept: Mapping[str, Sequence[bool]],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw, for each filter a column, which of the most probable tokens it keeps.

    ``kept`` has for each filter's name one truth a token. A full dot is kept, an empty one struck
    out.
    """
    check_as_many(tokens=tokens, probabilities=probabilities, **kept)
    probabilities = check_probabilities("probabilities", probabilities)
    ax = ax or plt.subplots(figsize=(5.4, 1.3 + 0.3 * len(tokens)))[1]
    rows = range(len(tokens))
    for column, (name, truths) in enumerate(kept.items()):
        for row, stays in zip(rows, truths, strict=True):
            face = CHOICE if stays else "white"
            ax.plot(column, row, "o", markersize=11, color=face, markeredgecolor=CHOICE)
        ax.text(column, -0.75, name, ha="center", va="bottom", fontsize=10)
    for row, share in zip(rows, probabilities, strict=True):
        ax.text(-0.6, row, f"{share:.3f}", ha="right", va="center", fontsize=10)
    ax.text(-0.6, -0.75, "probability", ha="right", va="bottom", fontsize=10)
    ax.set_yticks(rows, [label(token) for token in tokens], family="monospace")
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(-1.6, len(kept) - 0.5), ylim=(len(tokens) - 0.4, -1.5), xticks=[])
    ax.set_xlabel("full: kept, empty: struck out", fontsize=10)
    ax.set_title("What each filter keeps")
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    return ax


def plot_draws(
    tokens: Sequence[str],
    counts: Sequence[int],
    probabilities: Sequence[float],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw how often each token was drawn beside what its probability lets expect.

    The line is the expected share plus and minus two standard deviations, √(p (1 − p) / n): about
    19 in 20 shares lie on it.
    """
    check_as_many(tokens=tokens, counts=counts, probabilities=probabilities)
    probabilities = check_probabilities("probabilities", probabilities)
    counted = check_numbers("counts", counts, low=0)
    n = sum(counted)
    if not n:
        raise ValueError(f"at least one draw is needed, not {list(counts)}")
    ax = ax or plt.subplots(figsize=(5.4, 1.6 + 0.36 * len(tokens)))[1]
    rows = range(len(tokens))
    ax.barh(rows, [count / n for count in counted], height=0.62, color=CHOICE)
    spread = [2 * math.sqrt(max(p * (1 - p), 0) / n) for p in probabilities]
    ax.errorbar(probabilities, rows, xerr=spread, fmt="D", markersize=4, color=INK, capsize=4)
    ax.set_yticks(rows, [label(token) for token in tokens], family="monospace")
    ax.invert_yaxis()
    note = "bar: share of draws\ndiamond: probability\nline: where shares\nshould lie"
    ax.text(1, 0.02, note, ha="right", va="bottom", fontsize=9, transform=ax.transAxes)
    ax.set(xlabel=f"share of {n:.0f} draws", title="Drawn as often as probable")
    ax.margins(x=0.4)
    ax.set_xlim(0, None)
    return ax


def plot_beam_gain(
    beams: Sequence[int], reached: Mapping[str, Sequence[float]], *, ax: Axes | None = None
) -> Axes:
    """Draw which share of the highest joint probability each number of beams reaches.

    ``reached`` has for each prompt one share a number of beams; 1 is what the exact search finds.
    Four prompts at most, for more lines could not be told apart.
    """
    check_as_many(beams=beams, **reached)
    check_numbers("beams", beams, low=1)
    ax = ax or plt.subplots(figsize=(5.4, 4.0))[1]
    places = range(len(beams))
    if len(reached) > len(LINES):
        raise ValueError(f"at most {len(LINES)} prompts in one figure, not {len(reached)}")
    looks = zip(reached.items(), LINES, "os^D", strict=False)
    for (prompt, shares), line, mark in looks:
        check_probabilities(f"shares of {prompt!r}", shares)
        ax.plot(places, shares, line + mark, color=CHOICE, label=label(prompt), clip_on=False)
    ax.axhline(1, color=WEIGHTS, linewidth=1)
    ax.text(0, 1.02, "exact search", va="bottom", fontsize=10, color=INK)
    names = [f"{number}\n(greedy)" if number == 1 else f"{number}" for number in beams]
    ax.set_xticks(places, names)
    ax.set(ylim=(0, 1.12), xlabel="beams", ylabel="share of the highest\njoint probability")
    ax.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.45, -0.26), frameon=False)
    ax.set_title("No beam beats the exact search")
    return ax
