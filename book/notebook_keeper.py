"""Keeps what a run of a notebook puts out, with its seconds and its memory, and hears an interrupt.

A plugin for pytest, used by `notebook_runs.py`. Knows where results lie and what their records say;
which notebooks run, and whether an earlier result still counts, is none of its business.
"""

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

EXECUTED = Path("_build/executed")


def sha256(data: bytes) -> str:
    """The SHA-256 of `data`, as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def record_path(executed: Path) -> Path:
    """Where the record of an executed notebook lies: beside it."""
    return executed.with_suffix(".run.json")


def read_record(executed: Path) -> dict[str, Any]:
    """What was noted when `executed` was made."""
    record: dict[str, Any] = json.loads(record_path(executed).read_text("utf-8"))
    return record


class PeakMemory:
    """Samples the resident bytes of this process's children, five times a second."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(0.2):
            total = 0
            for child in psutil.Process().children(recursive=True):
                try:
                    total += child.memory_info().rss
                except psutil.Error:  # it ended between being listed and being asked
                    continue
            self.peak_bytes = max(self.peak_bytes, total)


class Keeper:
    """A pytest plugin that keeps each notebook's result, with a record, once it has run through."""

    def __init__(
        self, root: Path, wanted: dict[Path, tuple[Path, str]], around: dict[str, Any]
    ) -> None:
        self.root = root
        self.wanted = wanted  # staged file -> (path below root, key)
        self.around = around
        self.stopped = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note a request to end: nbclient answers it by ending the kernel, and would go on."""
        add = asyncio.SelectorEventLoop.add_signal_handler

        def add_and_note(loop: Any, number: int, callback: Any, *arguments: Any) -> None:
            def note() -> None:
                self.stopped = True
                callback(*arguments)

            add(loop, number, note)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio.SelectorEventLoop, "add_signal_handler", add_and_note)
            yield

    def pytest_keyboard_interrupt(self) -> None:
        """Note that somebody wants an end; pytest itself only returns a number for it."""
        self.stopped = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Run one notebook with an eye on clock and memory; keep it if it raised nothing."""
        start = time.perf_counter()
        with PeakMemory() as memory:
            try:
                yield
            except Exception:
                if self.stopped:  # it failed because its kernel was ended
                    raise KeyboardInterrupt from None
                raise
        self.keep(item.path, time.perf_counter() - start, memory.peak_bytes)

    def keep(self, staged: Path, seconds: float, peak_bytes: int) -> None:
        """Move a result to where it counts. The record comes last: without it nothing counts."""
        path, key = self.wanted[staged]
        record = {
            "notebook": path.as_posix(),
            "key": key,
            "sha256": sha256(staged.read_bytes()),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(seconds, 1),
            "peak_memory_bytes": peak_bytes,
            "model": self.around["model_name"],
            "place": self.around["place"],
        }
        executed = self.root / EXECUTED / path
        executed.parent.mkdir(parents=True, exist_ok=True)
        staged.replace(executed)
        record_path(executed).write_text(json.dumps(record, indent=1), encoding="utf-8")

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Say the seconds on each notebook's line."""
        if report.when != "call":
            return None
        return report.outcome, report.outcome[0], f"{report.outcome} in {report.duration:.0f} s"
