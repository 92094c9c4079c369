"""Requests to end, answered like Ctrl-C: what was started is ended, what was half-made removed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

REQUESTS = ("SIGTERM", "SIGHUP")  # the second: the terminal closes; Windows has none


@contextmanager
def requests_to_end_as_interrupts() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` where the system asks to end, while the block lasts.

    Only the main thread may set that. What is ignored stays so: ``nohup`` asks for it.
    """

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    there = [getattr(signal, name) for name in REQUESTS if is_main and hasattr(signal, name)]
    heeded = [number for number in there if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let a short block that cleans up run to its end, whoever presses Ctrl-C once more.

    For the main thread; the others are never interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    there = [getattr(signal, name) for name in ("SIGINT", *REQUESTS) if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in there}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
