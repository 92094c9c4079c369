"""Widgets: moving a setting calls the view with it, and the views are plain functions."""

import ipywidgets
import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from inside_generate import encode, prefill, widgets

mpl.use("agg")


@pytest.fixture
def logits(model, tokenizer):
    return prefill(model, encode(tokenizer, "soup")).logits[0]


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    assert plt.get_fignums() == []  # a figure left open would be shown twice


@pytest.fixture
def made(monkeypatch):
    """Return a function that watches a view of the module: a list of all that it returned."""

    def watch(name: str) -> list:
        results, view = [], getattr(widgets, name)

        def seen(*arguments):
            results.append(view(*arguments))
            return results[-1]

        monkeypatch.setattr(widgets, name, seen)
        return results

    return watch


def setting(widget, name: str):
    return next(child for child in widget.children if child.description == name)


def shown(widget) -> str:
    """The HTML below the settings."""
    return widget.children[-1].value


def test_text_that_is_typed_shows_its_own_tokens(tokenizer):
    widget = widgets.explore_tokens(tokenizer, "soup")
    before = shown(widget)
    setting(widget, "text").value = "bread"
    assert shown(widget) == widgets.view_tokens(tokenizer, "bread").html != before


def test_text_that_cannot_be_shown_is_answered_with_the_reason(tokenizer):
    widget = widgets.explore_tokens(tokenizer, "\ud800<b>")
    assert "half of a character" in shown(widget)
    assert "<b>" not in shown(widget)


def test_a_lower_temperature_sharpens_what_is_drawn(tokenizer, logits, made):
    figures = made("view_temperature")
    widget = widgets.explore_temperature(tokenizer, logits)
    for temperature in (0.1, 3.0):
        setting(widget, "temperature").value = temperature
    _, sharp, flat = map(longest_bar, figures)
    assert flat < sharp
    assert "<svg" in shown(widget)


def longest_bar(figure) -> float:
    return max(bar.get_width() for bar in figure.axes[0].patches)


@pytest.mark.parametrize(("name", "value"), [("length", 4096), ("batch", 64), ("dtype", "float32")])
def test_each_setting_of_the_memory_moves_its_figure(model, name, value, made):
    figures = made("view_kv_memory")
    widget = widgets.explore_kv_memory(model.config)
    setting(widget, name).value = value
    before, after = map(widths, figures)
    assert before != after


def widths(figure) -> list[float]:
    return [round(bar.get_width(), 6) for bar in figure.axes[0].patches]


def test_no_widget_captures_output(tokenizer, model):
    boxes = [widgets.explore_tokens(tokenizer, "soup"), widgets.explore_kv_memory(model.config)]
    inside = [child for box in boxes for child in box.children]
    assert not any(isinstance(child, ipywidgets.Output) for child in inside)


def test_a_dtype_that_is_not_offered_is_named(model):
    with pytest.raises(ValueError, match="one of float32, bfloat16, float16, not 'int8'"):
        widgets.view_kv_memory(model.config, 1, 1, "int8")
