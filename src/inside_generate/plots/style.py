"""One look for every figure: the style, a token's label, and one colour for each thing.

The colours are Okabe and Ito's, safe for colour-blind readers. One colour means one thing on every
page.
"""

from __future__ import annotations

from importlib import resources

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib_inline.backend_inline import set_matplotlib_formats

PREFILL = "#0072B2"
DECODE = "#D55E00"
CACHE = "#009E73"
CHOICE = "#CC79A7"
WEIGHTS = "#7F7F7F"
ATTENTION = "#E69F00"
INK = "#222222"


def use_book_style() -> None:
    """Set the book's style for all figures that follow, drawn as SVG in a notebook."""
    with resources.as_file(resources.files("inside_generate") / "data" / "book.mplstyle") as path:
        plt.style.use(path)
    set_matplotlib_formats("svg")


def label(text: str) -> str:
    """Return a token's text for an axis: quoted, what the font cannot draw as an escape.

    ``$`` would begin a formula.
    """
    drawable = "".join(c if ord(c) < 0x250 else f"\\u{ord(c):04x}" for c in repr(text))
    return drawable.replace("$", r"\$")


def write_beside(
    ax: Axes,
    text: str,
    point: tuple[float, float],
    points_away: tuple[float, float],
    *,
    ha: str = "left",
    va: str = "baseline",
    color: str = INK,
    fontsize: float = 10,
) -> None:
    """Write a name beside a point of the data, so many typographic points to the right and up."""
    ax.annotate(
        text,
        point,
        points_away,
        textcoords="offset points",
        ha=ha,
        va=va,
        color=color,
        fontsize=fontsize,
    )
