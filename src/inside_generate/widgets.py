"""Things to move by hand in a notebook: each is a view and a few lines of wiring.

A view is a plain function of its settings that returns a figure or HTML; the widget calls it again
when a setting moves. Pages have no kernel: there, a figure made by the same plotting function
stands in the widget's place.
"""

from __future__ import annotations

import html
import io
from collections.abc import Callable
from typing import Any

import ipywidgets
import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from inside_generate.plots import (
    plot_memory_at,
    plot_temperature,
    token_strip,
)
from inside_generate.plots.token_strip import TokenStrip
from inside_generate.tokens import pieces
from inside_generate.trace import top_candidates

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def explore_tokens(
    tokenizer: PreTrainedTokenizerBase, text: str = "What's for lunch today? 今天午饭吃什么? 🍜"
) -> ipywidgets.Box:
    """Return a text field that shows the tokens of what is typed."""
    return _moving(
        lambda text: view_tokens(tokenizer, text),
        text=ipywidgets.Textarea(text, description="text", continuous_update=True),
    )


def explore_temperature(tokenizer: PreTrainedTokenizerBase, logits: torch.Tensor) -> ipywidgets.Box:
    """Return a slider that sharpens and flattens the distribution of one row of logits, [V]."""
    return _moving(
        lambda temperature: view_temperature(tokenizer, logits, temperature),
        temperature=ipywidgets.FloatSlider(1.0, min=0.1, max=3.0, step=0.1),
    )


def explore_kv_memory(config: PretrainedConfig) -> ipywidgets.Box:
    """Return sliders for length, batch and number format against the memory that they take."""
    return _moving(
        lambda length, batch, dtype: view_kv_memory(config, length, batch, dtype),
        length=ipywidgets.SelectionSlider(options=[2**n for n in range(6, 18)], value=1024),
        batch=ipywidgets.SelectionSlider(options=[2**n for n in range(9)], value=1),
        dtype=ipywidgets.Dropdown(options=list(DTYPES), value="bfloat16"),
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
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    return _figure(plot_memory_at(config, length, batch, DTYPES[dtype]))


def _moving(view: Callable[..., Any], **settings: ipywidgets.Widget) -> ipywidgets.Box:
    """Return ``settings`` as a box, and below them what ``view`` makes of them at each move.

    Shown as HTML: ipywidgets' own ``interactive`` captures what is displayed, and for that talks to
    whoever runs the notebook while a cell is running: it can then
    miss the answer and wait until the cell's time is over.
    """
    shown = ipywidgets.HTML()

    def draw(_: Any = None) -> None:
        try:
            shown.value = _html(view(**{name: one.value for name, one in settings.items()}))
        except ValueError as error:  # what was typed cannot be shown: say why
            shown.value = html.escape(str(error))

    for name, widget in settings.items():
        widget.description = name
        widget.style.description_width = "6em"
        widget.observe(draw, names="value")
    draw()
    return ipywidgets.VBox([*settings.values(), shown])


def _html(shown: Figure | TokenStrip) -> str:
    """Return a view as text for a page: a figure as SVG."""
    if isinstance(shown, TokenStrip):
        return shown.html
    file = io.StringIO()
    shown.savefig(file, format="svg")
    return file.getvalue()


def _figure(ax: Any) -> Figure:
    """Return the figure of some axes, closed, so that it is shown once: by the widget."""
    plt.close(ax.figure)
    return ax.figure
