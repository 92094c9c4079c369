"""One process at a time: what two commands must not do at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from inside_generate.home import home


@contextmanager
def one_at_a_time(name: str, busy: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock ``name`` while the block lasts; whoever has to wait says ``busy`` first.

    A process that has died holds no lock.
    """
    path = home() / "locks" / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say(busy)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
