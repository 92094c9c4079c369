"""Widgets: moving a setting calls the view with it, and the views are plain functions."""

from dataclasses import replace

import ipywidgets
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


def test_stepping_shows_the_run_up_to_the_step(trace, made):
    figures = made("view_step")
    widget = widgets.step_through(trace)
    assert setting(widget, "step").max == len(trace.steps)
    setting(widget, "step").value = 3
    above, below = figures[-1].axes
    assert len(above.get_yticks()) == 3
    logits = [candidate.logit for candidate in trace.steps[2].top_k]
    assert [bar.get_width() for bar in below.patches] == pytest.approx(logits)


def test_no_widget_captures_output(tokenizer, trace):
    boxes = [widgets.explore_tokens(tokenizer, "soup"), widgets.step_through(trace)]
    inside = [child for box in boxes for child in box.children]
    assert not any(isinstance(child, ipywidgets.Output) for child in inside)


@pytest.mark.parametrize("number", [0, 6])
def test_a_step_that_the_run_has_not_is_refused(trace, number):
    with pytest.raises(ValueError, match=f"the tokens 1 to 5, not {number}"):
        widgets.view_step(trace, number)


@pytest.mark.parametrize("number", [1.5, "1", None, True])
def test_a_step_that_is_no_count_is_refused(trace, number):
    with pytest.raises(ValueError, match=f"number must be a whole number .*, not {number!r}"):
        widgets.view_step(trace, number)


def test_a_run_without_tokens_has_no_steps_to_go_through(trace):
    with pytest.raises(ValueError, match="no tokens to step through"):
        widgets.step_through(replace(trace, steps=()))


def test_a_dtype_that_is_not_offered_is_named(model):
    with pytest.raises(ValueError, match="one of float32, bfloat16, float16, not 'int8'"):
        widgets.view_kv_memory(model.config, 1, 1, "int8")
