"""A child process that answers requests, one JSON object a line, and never outlives its use.

What it knows: waiting no longer than told, what a child said when it died, ending it with all that
it started. What it leaves to others: what is asked (`running`), the other end (`worker`).
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from pathlib import Path
from typing import IO, Any

import psutil

from inside_generate.engines.errors import EngineError
from inside_generate.errors import shortened, shown

LONGEST_LINE = 1 << 24  # bytes; a child that has lost its mind shall not fill the memory
EXIT_S = 10.0  # a child that was told to end may take so long to clear up


class Child:
    """One engine's process. ``name`` is what messages call it."""

    def __init__(
        self, name: str, command: list[str], environment: dict[str, str], folder: Path
    ) -> None:
        self.name = name
        self.stderr = folder / "stderr.txt"
        try:
            with self.stderr.open("wb") as stderr:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env={**os.environ, **environment, "TMPDIR": str(folder)},
                    start_new_session=True,  # a group of its own, to be ended as a whole
                )
        except OSError as error:
            raise EngineError(f"{name} cannot be started: {error}") from error
        self.replies: queue.Queue[bytes] = queue.Queue()  # an empty one says that it is over
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def ask(self, timeout_s: float, **request: Any) -> dict[str, Any]:
        """Return what the child answers, or raise ``EngineError``: it is then ended."""
        try:
            self._write(request)
            return self._reply(timeout_s)
        except _Refused as refused:
            raise EngineError(f"{self.name}: {refused}") from None
        except BaseException:  # an interrupt too: its answer would be taken for the next one
            self.end(patience_s=0)
            raise

    def memory_bytes(self) -> int:
        """Return the main memory of the child and of what it started, mapped files included."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.process.pid)
            family = [process, *process.children(recursive=True)]
            return sum(int(member.memory_info().rss) for member in family)
        return 0

    def end(self, patience_s: float = EXIT_S) -> None:
        """End the child and all that it started. Doing so twice does no harm."""
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience_s)
        finally:  # a second Ctrl-C does not keep it alive
            self._kill_group()
        self.process.wait()
        self.reader.join(EXIT_S)
        if self.process.stdout is not None and not self.reader.is_alive():
            self.process.stdout.close()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()

    def _write(self, request: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except (OSError, ValueError):  # it has gone, or its end is closed here
            raise self._death() from None

    def _reply(self, timeout_s: float) -> dict[str, Any]:
        try:
            line = self.replies.get(timeout=timeout_s)
        except queue.Empty:
            raise EngineError(
                f"{self.name} gave no answer within {timeout_s:g} s{self._last_words()}"
            ) from None
        if not line:
            raise self._death()
        return _content(self.name, line)

    def _death(self) -> EngineError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(EXIT_S)
        return EngineError(
            f"{self.name} ended with exit code {self.process.returncode}{self._last_words()}"
        )

    def _last_words(self) -> str:
        lines = self.stderr.read_text(encoding="utf-8", errors="replace").split("\n")
        lines = [line for line in lines if line.strip()]
        return f"; its last line: {shortened(lines[-1])}" if lines else ""

    def _read(self) -> None:
        stdout: IO[bytes] | None = self.process.stdout
        assert stdout is not None
        while line := stdout.readline(LONGEST_LINE):
            self.replies.put(line)
        self.replies.put(b"")


class _Refused(Exception):
    """The child is well and says that it cannot do this."""


def _content(name: str, line: bytes) -> dict[str, Any]:
    """Return what a line carries under "ok", or raise what it says under "error"."""
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        reply = None
    if isinstance(reply, dict) and isinstance(reply.get("ok"), dict):
        content: dict[str, Any] = reply["ok"]
        return content
    if isinstance(reply, dict) and isinstance(reply.get("error"), str):
        raise _Refused(shortened(reply["error"]))
    raise EngineError(f"{name} wrote what is no answer: {shown(line)}")
