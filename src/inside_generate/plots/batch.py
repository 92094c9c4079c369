"""Figures of a batch: its padding and positions, what is wasted, and time against rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes

from inside_generate.guards import check_as_many, check_numbers, check_sizes
from inside_generate.loop import positions
from inside_generate.plots.style import DECODE, INK, PREFILL, WEIGHTS

FRAME = {"facecolor": "white", "edgecolor": WEIGHTS, "boxstyle": "round,pad=0.2"}


def plot_padded_batch(
    attention_mask: Any, prompt_columns: int | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw a batch's mask: padding hatched, each real token with its position written in.

    ``attention_mask``: [B, n], of prompts padded on the left. The columns from ``prompt_columns``
    on are the new tokens' and stand out.
    """
    mask = _mask(attention_mask)
    prompt_columns = mask.shape[1] if prompt_columns is None else prompt_columns
    check_sizes(prompt_columns=prompt_columns)
    count = positions(mask).tolist()
    ax = ax or plt.subplots(figsize=(5.4, 0.9 + 0.45 * len(mask)))[1]
    for row, column in np.ndindex(*mask.shape):
        real = bool(mask[row, column])
        colour = (DECODE if column >= prompt_columns else PREFILL) if real else "white"
        _cell(ax, row, column, colour, "" if real else "////")
        if real:
            ax.text(column, row, str(count[row][column]), ha="center", va="center", color=INK)
    ax.set(xlim=(-0.5, mask.shape[1] - 0.5), ylim=(len(mask) - 0.5, -0.5))
    ax.set_xticks(range(mask.shape[1]))
    if prompt_columns < mask.shape[1]:  # one word for all new columns: they may be narrow
        under = ((prompt_columns + mask.shape[1] - 1) / 2, 0)
        ax.annotate(
            "new",
            under,
            (0, -17),
            xycoords=ax.get_xaxis_transform(),
            textcoords="offset points",
            ha="center",
            va="top",
            color=INK,
        )
    ax.set_yticks(range(len(mask)), [f"row {row}" for row in range(len(mask))])
    ax.tick_params(length=0)
    ax.set(xlabel="column of the tensors", title="Positions count real tokens only")
    return ax


def plot_batch_slots(
    prompt_tokens: Sequence[int], answer_tokens: Sequence[int], *, ax: Axes | None = None
) -> Axes:
    """Draw what the forwards of a batch worked on: one bar a row, one column an input.

    T tokens of an answer are T − 1 inputs. Hatched: padding, and a row that has ended already.
    """
    check_as_many(prompt_tokens=prompt_tokens, answer_tokens=answer_tokens)
    check_numbers("tokens", [*prompt_tokens, *answer_tokens], at_least=2, low=1)
    prompts, fed = np.array(prompt_tokens), np.array(answer_tokens) - 1
    parts = (
        ("padding", prompts.max() - prompts, "white", "////"),
        ("prompt", prompts, PREFILL, ""),
        ("answer", fed, DECODE, ""),
        ("ended", fed.max() - fed, "white", "\\\\\\\\"),
    )
    ax = ax or plt.subplots(figsize=(5.4, 1.2 + 0.45 * len(prompts)))[1]
    left = np.zeros(len(prompts))
    for name, width, colour, hatch in parts:
        ax.barh(range(len(prompts)), width, left=left, fc=colour, ec=WEIGHTS, hatch=hatch)
        row = int(width.argmax())
        if width[row] and name in ("padding", "prompt"):
            at = left[row] + width[row] / 2
            ax.text(at, row, name, ha="center", va="center", color=INK, bbox=FRAME)
        elif width[row]:  # often too narrow for a word: beside the bar, never two in one row
            end = ((prompts.max() + fed.max()), row)
            ax.annotate(name, end, (6, 0), textcoords="offset points", color=INK, va="center")
        left = left + width
    ax.set_yticks(range(len(prompts)), [f"row {row}" for row in range(len(prompts))])
    ax.set(xlabel="inputs of the batch, column by column", xlim=(0, 1.15 * left.max()))
    ax.set_title("Hatched: computed, and of use to nobody")
    ax.invert_yaxis()
    return ax


def plot_batch_step_time(
    rows: Sequence[int], seconds: Sequence[float], *, ax: Axes | None = None
) -> Axes:
    """Draw the time of a decode step against the rows in it, and that of a step for each row."""
    _check_sweep(rows, seconds)
    milliseconds = 1e3 * np.array(seconds)
    ax = ax or plt.subplots()[1]
    one_by_one = milliseconds[0] / rows[0] * np.array(rows)
    ax.plot(rows, one_by_one, ":", color=INK)
    ax.plot(rows, milliseconds, "o-", color=DECODE)
    share = milliseconds[-1] / (one_by_one[-1] or 1.0)
    # Names keep off each other where the lines end together, and off the axis where they do not.
    places = ("center", "bottom") if share < 0.7 else ("bottom", "top")
    one, batch = places if share <= 1 else places[::-1]
    _name_end(ax, rows, one_by_one, "one row after\nthe other", INK, one)
    _name_end(ax, rows, milliseconds, "one batch,\nmeasured", DECODE, batch)
    ax.set(xlabel="rows in the batch", ylabel="time of a decode step (ms)")
    ax.set_title("What one step costs with more rows")
    _fit(ax, rows, max(*milliseconds, *one_by_one))
    return ax


def plot_batch_throughput(
    rows: Sequence[int], seconds: Sequence[float], *, ax: Axes | None = None
) -> Axes:
    """Draw decoded tokens per second, of the whole batch and of each row, against the rows."""
    _check_sweep(rows, seconds)
    if min(seconds) == 0:
        raise ValueError("tokens per second need times above 0, not 0.0")
    each = 1 / np.array(seconds)
    ax = ax or plt.subplots()[1]
    ax.plot(rows, each * np.array(rows), "o-", color=DECODE)
    ax.plot(rows, each, "s--", color=INK)
    _name_end(ax, rows, each * np.array(rows), "all rows", DECODE)
    _name_end(ax, rows, each, "each row", INK)
    ax.set(xlabel="rows in the batch", ylabel="decoded tokens per second")
    ax.set_title("The batch's tokens, and each user's")
    _fit(ax, rows, max(each * np.array(rows)))
    return ax


def _mask(attention_mask: Any) -> torch.Tensor:
    """Return the mask as a tensor [B, n] of ones and zeros, or raise."""
    try:
        mask = torch.as_tensor(attention_mask)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"an attention mask is a table [B, n], not {attention_mask!r}") from None
    if mask.dim() != 2 or not mask.numel():
        raise ValueError(f"an attention mask is a table [B, n], not {list(mask.shape)}")
    if not bool(((mask == 0) | (mask == 1)).all()):
        raise ValueError(f"an attention mask holds ones and zeros, not {mask.unique().tolist()}")
    return mask.long().cpu()


def _cell(ax: Axes, row: int, column: int, colour: str, hatch: str) -> None:
    box = plt.Rectangle((column - 0.5, row - 0.5), 1, 1, fc=colour, ec=WEIGHTS, hatch=hatch)
    box.set_alpha(0.55 if colour != "white" else 1)
    ax.add_patch(box)


def _check_sweep(rows: Sequence[int], seconds: Sequence[float]) -> None:
    check_as_many(rows=rows, seconds=seconds)
    check_numbers("rows", rows, low=1)
    check_numbers("seconds", seconds, low=0)


def _name_end(
    ax: Axes, rows: Sequence[int], heights: np.ndarray, name: str, colour: str, va: str = "bottom"
) -> None:
    """Write a line's name at its right end, above the line or as ``va`` says."""
    end = (rows[-1], heights[-1])
    ax.annotate(name, end, (8, 0), textcoords="offset points", color=colour, va=va)


def _fit(ax: Axes, rows: Sequence[int], tallest: float) -> None:
    """Leave room for the names at the right end; an axis needs a length."""
    ax.set(xlim=(0, 1.3 * max(rows)), ylim=(0, 1.1 * tallest or 1.0))
    ax.set_xticks(list(rows))
