"""Draws the picture that a link to the book carries elsewhere: `python book/card.py`.

Kept in git as `_static/card.png`, so that no build has to draw it. Only the head of the pages names
it (`page_head.py`).
"""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from inside_generate.arguments import OneLineParser

CARD = Path(__file__).parent / "_static/card.png"
WIDTH, HEIGHT = 1200, 630  # pixels, as the places that show such pictures want them
INK, PAPER = "#1a1a1a", "#ffffff"
PREFILL, DECODE, CACHE = "#0072b2", "#d55e00", "#009e73"
PROMPT, STEPS = 7, 6  # columns for the prompt, and tokens after it


def draw() -> Figure:
    """The card: the book's name, its question, and a cache that grows by a column a step."""
    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100, facecolor=PAPER)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(HEIGHT, 0))
    axes.axis("off")
    axes.text(80, 150, "Inside generate()", size=58, weight="bold", color=INK)
    axes.text(80, 225, "One answer of a language model, opened up", size=27, color=INK)
    axes.text(80, 305, "“What’s for lunch today?”", size=27, style="italic", color=INK)
    for column in range(PROMPT + STEPS):
        draw_column(axes, column)
    axes.text(80, 590, "prefill", size=24, color=INK)
    axes.text(80 + PROMPT * 80, 590, "decode, token by token", size=24, color=INK)
    return figure


def draw_column(axes: Axes, column: int) -> None:
    """One position: what went in, above the keys and values that it left in the cache."""
    colour = PREFILL if column < PROMPT else DECODE
    left = 80 + column * 80
    for top, height, fill in ((365, 70, colour), (450, 90, CACHE)):
        axes.add_patch(Rectangle((left, top), 66, height, color=fill, linewidth=0))


def main(arguments: list[str] | None = None) -> None:
    """Write the card."""
    about = (__doc__ or "").splitlines()[0]
    OneLineParser(prog="python book/card.py", description=about).parse_args(arguments)
    draw().savefig(CARD, metadata={"Software": None})


if __name__ == "__main__":
    main()
