"""Things to move by hand in a notebook: each is a view and a few lines of wiring.

A view is a plain function of its settings that returns a figure or HTML; the widget calls it again
when a setting moves. Pages have no kernel: there, a figure made by the same plotting function
stands in the widget's place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ipywidgets
import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from inside_generate.plots import (
    plot_mask_growth,
    plot_memory_at,
    plot_next_tokens,
    plot_temperature,
    token_strip,
)
from inside_generate.plots.token_strip import TokenStrip
from inside_generate.tokens import pieces
from inside_generate.trace import Trace, top_candidates

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def explore_tokens(
    tokenizer: PreTrainedTokenizerBase, text: str = "What's for lunch today? 今天午饭吃什么? 🍜"
) -> ipywidgets.interactive:
    """Return a text field that shows the tokens of what is typed."""
    return _moving(
        lambda text: view_tokens(tokenizer, text),
        text=ipywidgets.Textarea(text, description="text", continuous_update=True),
    )


def explore_temperature(
    tokenizer: PreTrainedTokenizerBase, logits: torch.Tensor
) -> ipywidgets.interactive:
    """Return a slider that sharpens and flattens the distribution of one row of logits, [V]."""
    return _moving(
        lambda temperature: view_temperature(tokenizer, logits, temperature),
        temperature=ipywidgets.FloatSlider(1.0, min=0.1, max=3.0, step=0.1),
    )


def explore_kv_memory(config: PretrainedConfig) -> ipywidgets.interactive:
    """Return sliders for length, batch and number format against the memory that they take."""
    return _moving(
        lambda length, batch, dtype: view_kv_memory(config, length, batch, dtype),
        length=ipywidgets.SelectionSlider(options=[2**n for n in range(6, 18)], value=1024),
        batch=ipywidgets.SelectionSlider(options=[2**n for n in range(9)], value=1),
        dtype=ipywidgets.Dropdown(options=list(DTYPES), value="bfloat16"),
    )


def step_through(trace: Trace) -> ipywidgets.interactive:
    """Return a slider over the tokens of a run: what was read, and what could have come."""
    return _moving(
        lambda step: view_step(trace, step),
        step=ipywidgets.IntSlider(1, min=1, max=len(trace.steps)),
    )


def view_tokens(tokenizer: PreTrainedTokenizerBase, text: str) -> TokenStrip:
    """Return the tokens of a text as boxes with their ids."""
    return token_strip(pieces(tokenizer, text))


def view_temperature(
    tokenizer: PreTrainedTokenizerBase, logits: torch.Tensor, temperature: float
) -> Figure:
    """Return the probabilities of the best tokens at a temperature."""
    return _figure(plot_temperature(top_candidates(tokenizer, logits), logits, temperature))


def view_kv_memory(config: PretrainedConfig, length: int, batch: int, dtype: str) -> Figure:
    """Return what weights, KV cache and logits take; ``dtype`` is a key of ``DTYPES``."""
    return _figure(plot_memory_at(config, length, batch, DTYPES[dtype]))


def view_step(trace: Trace, number: int) -> Figure:
    """Return a run up to its token ``number``: the forwards so far, and the last one's candidates.

    Raises ``ValueError`` where the run has no such token.
    """
    if not 1 <= number <= len(trace.steps):
        raise ValueError(f"the run has the tokens 1 to {len(trace.steps)}, not {number}")
    _, (above, below) = plt.subplots(2, figsize=(5.4, 5.6), height_ratios=[3, 2])
    plot_mask_growth(replace(trace, steps=trace.steps[:number]), ax=above)
    plot_next_tokens(trace.steps[number - 1].top_k, ax=below)
    return _figure(above)


def _moving(view: Callable[..., Any], **settings: ipywidgets.Widget) -> ipywidgets.interactive:
    """Return ``settings`` as a box; whenever one moves, ``view`` is shown anew below them."""
    for name, widget in settings.items():
        widget.description = name
        widget.style.description_width = "6em"
    return ipywidgets.interactive(view, {"auto_display": True}, **settings)


def _figure(ax: Any) -> Figure:
    """Return the figure of some axes, closed, so that it is shown once: by the widget."""
    plt.close(ax.figure)
    return ax.figure
