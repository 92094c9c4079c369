"""The figures of the book. Each takes data, draws on an ``Axes`` and returns it.

Nothing here shows or saves a figure, and a style is set by one function only: a notebook calls
``use_book_style`` once. One module a subject; all functions can be imported from here.
"""

from inside_generate.plots.run import plot_cache_growth, plot_mask_growth, plot_timeline
from inside_generate.plots.style import use_book_style
from inside_generate.plots.tokens import plot_next_tokens, plot_prompt_predictions
from inside_generate.plots.whole_path import plot_whole_path

__all__ = [
    "plot_cache_growth",
    "plot_mask_growth",
    "plot_next_tokens",
    "plot_prompt_predictions",
    "plot_timeline",
    "plot_whole_path",
    "use_book_style",
]
