"""The figures: they draw their data, on the axes they are given, and change nothing else."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from inside_generate import generate, kv_cache_bytes, plots
from inside_generate.plots import style

mpl.use("agg")


@pytest.fixture
def trace(model, tokenizer):
    return generate(model, tokenizer, "soup", max_new_tokens=5, eos_token_ids=())


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def drawings(trace, config):
    return {
        "next tokens": lambda ax: plots.plot_next_tokens(trace.steps[0].top_k, ax=ax),
        "prompt predictions": lambda ax: plots.plot_prompt_predictions(
            ["a", "b"], [0.1, 0.9], ax=ax
        ),
        "timeline": lambda ax: plots.plot_timeline(trace, ax=ax),
        "cache growth": lambda ax: plots.plot_cache_growth(trace, kv_cache_bytes(config, 1), ax=ax),
        "mask growth": lambda ax: plots.plot_mask_growth(trace, ax=ax),
        "whole path": lambda ax: plots.plot_whole_path(ax=ax),
    }


NAMES = [
    "next tokens",
    "prompt predictions",
    "timeline",
    "cache growth",
    "mask growth",
    "whole path",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_draws_on_the_given_axes_and_on_its_own(name, trace, model):
    draw = drawings(trace, model.config)[name]
    figure, ax = plt.subplots()
    before = dict(mpl.rcParams)
    assert draw(ax) is ax
    assert draw(None).figure is not figure
    assert dict(mpl.rcParams) == before, "a figure must not set a style"
    figure.canvas.draw()  # a glyph that the font lacks would warn, and a warning is an error


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_says_its_message_and_its_units(name, trace, model):
    ax = drawings(trace, model.config)[name](None)
    assert ax.get_title(loc="left") or ax.get_title()
    assert name == "whole path" or ax.get_xlabel()


def test_bars_are_as_long_as_the_logits(trace):
    ax = plots.plot_next_tokens(trace.steps[0].top_k)
    widths = [bar.get_width() for bar in ax.containers[0]]
    assert widths == pytest.approx([candidate.logit for candidate in trace.steps[0].top_k])


def test_the_time_line_is_as_long_as_the_run(trace):
    ax = plots.plot_timeline(trace)
    last = ax.patches[-1]
    assert len(ax.patches) == len(trace.steps)
    assert last.get_x() + last.get_width() == pytest.approx(
        1000 * sum(s.seconds for s in trace.steps)
    )


def test_the_growth_shows_each_length(trace, model):
    ax = plots.plot_cache_growth(trace, kv_cache_bytes(model.config, 1))
    assert list(ax.lines[1].get_ydata()) == [step.cache_length for step in trace.steps]


def test_the_mask_shows_prompt_cache_and_new_token(trace):
    ax = plots.plot_mask_growth(trace)
    rows = ax.collections[0].get_array().reshape(len(trace.steps), -1)
    length = len(trace.prompt_ids)
    assert rows[0, :length].tolist() == [1.0] * length
    assert rows[2, : length + 2].tolist() == [0.0] * (length + 1) + [2.0]
    assert rows[2].mask.sum() == rows.shape[1] - (length + 2)


@pytest.mark.parametrize(
    ("text", "drawn"), [("a", "'a'"), (" $x", r"' \$x'"), ("\n", r"'\n'"), ("今", r"'\u4eca'")]
)
def test_a_label_holds_only_what_the_font_can_draw(text, drawn):
    assert style.label(text) == drawn


def test_one_colour_means_one_thing():
    colours = [
        *(style.PREFILL, style.DECODE, style.CACHE),
        *(style.CHOICE, style.WEIGHTS, style.ATTENTION),
    ]
    assert len(set(colours)) == 6
