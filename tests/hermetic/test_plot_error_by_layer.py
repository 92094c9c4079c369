"""The figure of an engine beside the reference draws each error and names the first wrong layer."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from inside_generate import plots

mpl.use("agg")

RIGHT, WRONG = [1e-7, 0.0, 2e-6], [1e-7, 0.1, 0.3]


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def test_each_engine_is_a_line_with_its_name_and_a_sign_of_its_own():
    ax = plots.plot_error_by_layer({"mine": RIGHT, "yours": WRONG}, 1e-4)
    mine, yours, bound = ax.lines
    assert list(mine.get_ydata()) == [1e-7, 1e-9, 2e-6]  # 0 stands at the foot of the scale
    assert list(yours.get_ydata()) == WRONG
    assert set(bound.get_ydata()) == {1e-4}
    assert mine.get_marker() != yours.get_marker()
    assert [text.get_text() for text in ax.texts] == ["mine", "yours", "bound for rounding"]


def test_the_title_says_from_which_layer_on_it_is_more_than_rounding():
    def told(errors):
        ax = plots.plot_error_by_layer(errors, 1e-4)
        return ax.get_title(loc="left") or ax.get_title()

    assert told({"mine": RIGHT, "yours": WRONG}) == "More than rounding, from layer 1 on"
    assert told({"mine": RIGHT}) == "In every layer the error is rounding"
    assert told({"mine": [1e-4]}) == "In every layer the error is rounding"


@pytest.mark.parametrize(
    ("errors", "allowed"),
    [
        ({}, 1e-4),
        (dict.fromkeys("abcd", RIGHT), 1e-4),
        ({"mine": []}, 1e-4),
        ({"mine": [-1.0]}, 1e-4),
        ({"mine": [float("nan")]}, 1e-4),
        ({"mine": RIGHT}, 0),
    ],
)
def test_what_cannot_be_drawn_is_refused(errors, allowed):
    with pytest.raises(ValueError, match=r"must be|needed"):
        plots.plot_error_by_layer(errors, allowed)
    assert plt.get_fignums() == []
