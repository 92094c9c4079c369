"""Requests to end, answered like Ctrl-C: what was started is ended, what was half-made removed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

REQUESTS = ("SIGTERM", "SIGHUP")  # the second: the terminal closes; Windows has none


@contextmanager
def requests_to_end_as_interrupts() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` where the system asks to end, while the block lasts.

    Only the main thread may set that. What is ignored stays so: ``nohup`` asks for it.
    """

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    there = _known(REQUESTS)
    heeded = [number for number in there if signal.getsignal(number) is not signal.SIG_IGN]
    with _answered(heeded, interrupt):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let a short block that cleans up run to its end, whoever presses Ctrl-C once more.

    For the main thread; the others are never interrupted.
    """
    with _answered(_known(("SIGINT", *REQUESTS)), signal.SIG_IGN):
        yield


def _known(names: Iterable[str]) -> list[signal.Signals]:
    """Those of these signals that this system has; none where another thread may not set them."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


@contextmanager
def _answered(numbers: Iterable[signal.Signals], answer: Any) -> Iterator[None]:
    """Answer these signals in this way while the block lasts, and as before afterwards."""
    before = {number: signal.signal(number, answer) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
