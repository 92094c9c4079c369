"""Widgets: moving a setting calls the view with it, and the views are plain functions."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from inside_generate import encode, generate, prefill, widgets

mpl.use("agg")


@pytest.fixture
def trace(model, tokenizer):
    return generate(model, tokenizer, "soup", max_new_tokens=5, eos_token_ids=())


@pytest.fixture
def logits(model, tokenizer):
    return prefill(model, encode(tokenizer, "soup")).logits[0]


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    assert plt.get_fignums() == []  # a figure left open would be shown twice


def setting(widget, name: str):
    return next(child for child in widget.kwargs_widgets if child._kwarg == name)


def test_text_that_is_typed_shows_its_own_tokens(tokenizer):
    widget = widgets.explore_tokens(tokenizer, "soup")
    before = widget.result
    setting(widget, "text").value = "bread"
    assert widget.result == widgets.view_tokens(tokenizer, "bread") != before


def test_a_lower_temperature_sharpens_what_is_drawn(tokenizer, logits):
    widget = widgets.explore_temperature(tokenizer, logits)
    setting(widget, "temperature").value = 0.1
    sharp = longest_bar(widget.result)
    setting(widget, "temperature").value = 3.0
    assert longest_bar(widget.result) < sharp


def longest_bar(figure) -> float:
    return max(bar.get_width() for bar in figure.axes[0].patches)


@pytest.mark.parametrize(("name", "value"), [("length", 4096), ("batch", 64), ("dtype", "float32")])
def test_each_setting_of_the_memory_moves_its_figure(model, name, value):
    widget = widgets.explore_kv_memory(model.config)
    before = widths(widget.result)
    setting(widget, name).value = value
    assert widths(widget.result) != before


def widths(figure) -> list[float]:
    return [round(bar.get_width(), 6) for bar in figure.axes[0].patches]


def test_stepping_shows_the_run_up_to_the_step(trace):
    widget = widgets.step_through(trace)
    assert setting(widget, "step").max == len(trace.steps)
    setting(widget, "step").value = 3
    above, below = widget.result.axes
    assert len(above.get_yticks()) == 3
    logits = [candidate.logit for candidate in trace.steps[2].top_k]
    assert [bar.get_width() for bar in below.patches] == pytest.approx(logits)


@pytest.mark.parametrize("number", [0, 6])
def test_a_step_that_the_run_has_not_is_refused(trace, number):
    with pytest.raises(ValueError, match=f"the tokens 1 to 5, not {number}"):
        widgets.view_step(trace, number)
