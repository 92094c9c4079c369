"""Loading without chatter: no progress bars, no advice on stderr, nothing changed for good.

What it knows: the switches of the model library and of the hub client. A page of the book is
built with "anything on stderr is a failure"; what matters is raised as an error instead.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

from huggingface_hub.utils import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)
from transformers.utils import logging


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Silence both libraries' bars and advice, and put each switch back as it was."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    hub_bars = disable_progress_bars if are_progress_bars_disabled() else enable_progress_bars
    logging.set_verbosity_error()
    logging.disable_progress_bar()  # the hub client's too
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()  # the hub client's too
        hub_bars()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the libraries and Python's warnings too, which nobody can act on during a load."""
    with quiet_libraries(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
