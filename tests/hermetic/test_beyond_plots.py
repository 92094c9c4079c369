"""The figures past one device show the numbers that they are given."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from inside_generate import plots

mpl.use("agg")


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def test_a_cut_matrix_shows_the_share_of_rank_0():
    ax = plots.plot_cut({"out": ((6, 4), 0), "in": ((4, 6), 1), "all": ((2, 2), None)}, 2)
    boxes = [(box.get_width(), box.get_height()) for box in ax.patches]
    assert boxes == [(4, 6), (4, 3), (6, 4), (3, 4), (2, 2), (2, 2)]
    assert [bool(box.get_hatch()) for box in ax.patches] == [False, True] * 3
    assert [text.get_text() for text in ax.texts] == ["out", "in", "all"]
    first_rows = ax.patches[1]
    assert first_rows.get_y() + first_rows.get_height() == 6  # the first rows are on top


def test_waiting_is_as_long_as_until_the_first_piece_in_the_order_of_those():
    ax = plots.plot_waiting([10.0, 10.5, 10.0], [[3.0, 4.0], [0.5, 1.0], [2.0]])
    waits = [bar.get_width() for bar in ax.patches]
    assert waits == [0.5, 2.0, 3.0]
    assert [bar.get_x() for bar in ax.patches] == [0.5, 0.0, 0.0]
    assert [list(line.get_xdata()) for line in ax.lines] == [[1.0, 1.5], [2.0], [3.0, 4.0]]


def test_latencies_are_two_lines_of_different_marks():
    ax = plots.plot_latency([1, 2, 4], [0.5, 1.0, 6.0], [0.1, 0.2, 0.2])
    assert [list(line.get_ydata()) for line in ax.lines] == [[0.5, 1.0, 6.0], [0.1, 0.2, 0.2]]
    assert [line.get_marker() for line in ax.lines] == ["o", "s"]
    assert [text.get_text() for text in ax.texts] == ["first token", "next token"]


def test_slots_are_shares_of_the_capacity():
    ax = plots.plot_slots({"a": [8, 8], "b": [4, 8]}, {"a": [2, 4], "b": [4, 8]}, 8)
    assert [list(line.get_ydata()) for line in ax.lines] == [[25, 50], [50, 100]]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: plots.plot_cut({}, 2),
        lambda: plots.plot_cut({"a": ((2, 2), 0)}, 1),
        lambda: plots.plot_waiting([0.0], [[1.0], [2.0]]),
        lambda: plots.plot_waiting([0.0], [[]]),
        lambda: plots.plot_waiting([], []),
        lambda: plots.plot_latency([1], [0.1, 0.2], [0.1]),
        lambda: plots.plot_latency([1], [0.0], [0.1]),
        lambda: plots.plot_slots({}, {}, 4),
        lambda: plots.plot_slots({"a": [1]}, {"b": [1]}, 4),
        lambda: plots.plot_slots({"a": [1]}, {"a": [1]}, 0),
    ],
)
def test_what_cannot_be_drawn_is_refused(wrong):
    with pytest.raises(ValueError, match=r"not|no matrix|needed"):
        wrong()
