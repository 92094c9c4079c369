"""Running another program beside this one, and leaving nothing of it behind.

Knows how a child and all that it starts are ended, also when something goes wrong here, and how to
say in one line what it was that failed. What the program is for is its caller's affair.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

from inside_generate.errors import InsideGenerateError, shortened, shown

PATIENCE_S = 5.0  # for a program that was asked to end; then it is ended
POLL_S = 0.05
NOISE = ("warning", "Loading weights", "====", "----")


@contextlib.contextmanager
def child(
    command: Sequence[str], log: Path, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command while the block lasts, all that it says in ``log``; then it has ended."""
    with log.open("wb") as words:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # Ctrl-C in a terminal is ours to answer
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all its descendants: ask, wait a little, then see to it."""
    family = descendants(process.pid)
    process.terminate()  # does nothing where it has ended
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_S)
    finally:  # a second Ctrl-C does not keep them alive
        for survivor in {*family, *descendants(process.pid)}:
            with contextlib.suppress(psutil.NoSuchProcess):
                survivor.kill()
        process.kill()
    process.wait()
    psutil.wait_procs(family, timeout=PATIENCE_S)


def descendants(pid: int) -> list[psutil.Process]:
    """Return what a process has started, and what that has started, as far as it still runs."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def wait_until(
    ready: Callable[[], bool],
    process: subprocess.Popen[bytes],
    log: Path,
    seconds: float,
    what: str,
) -> None:
    """Return once ``ready()`` is true; raise where the process ends before that, or time is up."""
    last = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None:
            raise InsideGenerateError(f"{what} ended before it was ready: {last_words(log)}")
        if time.monotonic() > last:
            raise InsideGenerateError(f"{what} was not ready after {seconds:g} s; {said(log)}")
        time.sleep(POLL_S)


def last_words(log: Path) -> str:
    """Return the line of a log that most likely says what went wrong: the last of an error."""
    text = log.read_text("utf-8", "replace") if log.exists() else ""
    lines = [" ".join(line.split()) for line in text.replace("\r", "\n").splitlines()]
    lines = [line for line in lines if line and not line.startswith(NOISE)]
    errors = [line for line in lines if "error" in line.lower()]
    return shortened((errors or lines or ["it said nothing"])[-1])


def said(log: Path) -> str:
    """Return the last thing that a program said, as the end of a message."""
    return f"the last that it said: {last_words(log)}"


def check_seconds(name: str, value: float) -> None:
    """Raise ``ValueError`` unless a time limit is a number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
        raise ValueError(f"{name} must be a number of seconds above 0, not {shown(value)}")
