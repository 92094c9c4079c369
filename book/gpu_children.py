"""One child process with a limit: how it ended, how long it took, and its last words.

Knows nothing of what a child is for. Each is the head of a process group of its own, and the group
is ended with it, so that nothing which it started lives on. What it says is read as it comes and
only the end of it is kept, however much there is and whatever it is made of.
"""

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

KEPT_BYTES = 16_000
LONGEST_LINE = 300
GRACE_S = 3.0  # between the request to end and the end
PAUSE_S = 0.1
CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Outcome:
    """How a child ended."""

    state: str  # "passed" (exit code 0), "failed", "timed out" or "interrupted"
    seconds: float
    exit_code: int | None  # as it ended; below 0 it is the number of a signal
    said: list[str]  # its last lines, stdout and stderr together


def run_child(
    command: Sequence[str],
    limit_s: float,
    cwd: Path,
    environment: Mapping[str, str],
    stop: threading.Event,
) -> Outcome:
    """Run ``command`` until it ends, its limit is reached, or ``stop`` is set by another thread."""
    start = time.monotonic()
    try:
        child = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    except OSError as error:
        return Outcome("failed", 0.0, None, [f"{command[0]} cannot be started: {error.strerror}"])
    ear = Ear(child.stdout)
    try:
        state = _wait(child, start + limit_s, stop)
    finally:
        _end(child)
    state = state or ("failed" if child.returncode else "passed")
    return Outcome(state, round(time.monotonic() - start, 1), child.returncode, ear.lines())


def _wait(child: subprocess.Popen[bytes], deadline: float, stop: threading.Event) -> str:
    """Return "" once the child has ended by itself, else why it has to."""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(PAUSE_S)
            return ""
        if stop.is_set():
            return "interrupted"
        if time.monotonic() >= deadline:
            return "timed out"


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the group: ask first (Python then says where it stood), and make sure of it."""
    if child.poll() is None:
        _signal(child, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
    _signal(child, signal.SIGKILL)
    child.wait()


def _signal(child: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left
        os.killpg(child.pid, number)


class Ear:
    """Reads a pipe in a thread and keeps the end of what came."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self._pipe = pipe
        self._kept = b""
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        with self._pipe or contextlib.nullcontext() as pipe:
            while pipe and (chunk := os.read(pipe.fileno(), KEPT_BYTES)):
                self._kept = (self._kept + chunk)[-KEPT_BYTES:]

    def lines(self) -> list[str]:
        """Return the last lines. A process that left the group may hold the pipe: no long wait."""
        self._thread.join(1.0)
        text = CONTROL.sub("", self._kept.decode("utf-8", "replace").replace("\r", "\n"))
        return [line.rstrip()[:LONGEST_LINE] for line in text.split("\n") if line.strip()]
