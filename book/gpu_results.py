"""The one file that a GPU check leaves: what ran on what, process by process, as far as it came.

Knows the file's form and when a check counts as passed; what runs is left to others. The file is
written anew after each process and is whole at every moment, so an interruption loses nothing: what
had not run by then says so.
"""

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gpu_cells
import gpu_peak
from gpu_children import Outcome
from gpu_parts import Run

ROOT = Path(__file__).resolve().parent.parent
SCHEMA_VERSION = 1
LINES = {"passed": 5, "skipped": 1}  # how many last lines are kept; of all else, all that there are
TESTS_PASSED = re.compile(r"^=+ .*\b[1-9]\d* passed\b")


def new_results(minutes: float, found: Mapping[str, Any], runs: Iterable[Run]) -> dict[str, Any]:
    """Return the results of a check that is about to begin."""
    model = found["model"] and dict(found["model"])
    if model:
        model["directory"] = Path(model["directory"]).name  # where it lies is nobody's business
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "gpu-check",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "minutes": minutes,
        "seconds": 0.0,
        "finished": False,
        "passed": False,
        "machine": found["machine"],
        "model": model,
        "runs": [entry(run) for run in runs],
        "bench": None,
    }


def entry(run: Run) -> dict[str, Any]:
    """Return what is known of a process before it runs."""
    return {
        "part": run.part,
        "name": run.name,
        "state": "skipped" if run.left_out else "not reached",
        "why": run.left_out or None,
        "seconds": None,
        "exit_code": None,
        "peak_gpu_memory_mib": None,
        "last_lines": [],
    }


def note(record: dict[str, Any], outcome: Outcome) -> None:
    """Put how a process ended into its entry."""
    said = [line.replace(f"{ROOT}{os.sep}", "") for line in outcome.said]  # as for any reader
    why = None
    if outcome.state == "failed" and record["part"] == "notebooks":
        why = outcome.said[-1] if outcome.exit_code == gpu_cells.MISSING and outcome.said else None
    elif outcome.state == "passed" and record["part"] == "tests":
        why = None if any(map(TESTS_PASSED.search, said)) else "no test ran"
    state = "skipped" if why else outcome.state
    record |= {
        "state": state,
        "why": why,
        "seconds": outcome.seconds,
        "exit_code": outcome.exit_code,
        "peak_gpu_memory_mib": gpu_peak.read(outcome.said),
        "last_lines": said[-LINES.get(state, len(said)) :],
    }


def close(results: dict[str, Any], seconds: float, finished: bool) -> None:
    """Say how long it took and whether everything passed."""
    results["seconds"] = round(seconds, 1)
    results["finished"] = finished
    results["passed"] = finished and passed(results["runs"])


def passed(records: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether nothing went wrong and something of each part ran.

    A notebook that is left out takes nothing away; a part of which nothing ran has not passed.
    """
    states: dict[str, set[str]] = {}
    for record in records:
        states.setdefault(record["part"], set()).add(record["state"])
    wanted = ({"passed"}, {"passed", "skipped"})
    return bool(states) and all(of_part in wanted for of_part in states.values())


def add_bench(results: dict[str, Any], file: Path) -> None:
    """Put the ladder's whole result in, if it left one."""
    with contextlib.suppress(OSError, ValueError):
        results["bench"] = json.loads(file.read_text("utf-8"))


def write(results: Mapping[str, Any], file: Path) -> None:
    """Replace the file as a whole."""
    text = json.dumps(results, indent=2, ensure_ascii=False) + "\n"
    partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(file)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def check_target(file: Path) -> None:
    """Raise OSError unless ``file`` can be written, before anything takes time.

    It is replaced as a whole, so a device, a pipe or a link is left alone.
    """
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise OSError(errno.EINVAL, "it is no plain file; choose another one", str(file))
    file.parent.mkdir(parents=True, exist_ok=True)
    trial = file.with_name(f".{file.name}.{os.getpid()}.trial")
    trial.touch()
    trial.unlink()
