"""Runs what only a GPU can show, in a fixed time: `make gpu-check`, or `python book/gpu_check.py`.

Three parts: the GPU tests, the ladder (`bench`), and the code of the notebooks. No network, nothing
is installed, and whatever weights are at hand serve; where there are none, random ones in the form
of the reference. One JSON file comes out, also of a check that was interrupted. The exit code is 0
when everything passed, 1 when not, 2 when it could not begin. `--device cpu` tries it on a CPU.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any, NoReturn

import gpu_machine
import gpu_parts
import gpu_results
from gpu_budget import Budget
from gpu_children import Outcome, run_child
from gpu_parts import PARTS, Run

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = "_build/gpu-check.json"
SET_UP_S = 150.0  # a first import and, where there is no model, random weights on a slow disk
RESERVE_S = 5.0  # to end what still runs and to write the file

Say = Callable[[str], None]


class CheckError(Exception):
    """Why the check cannot begin, in one line."""


class Check:
    """A check under way: its processes, what is known of each, and the file that it goes into."""

    def __init__(
        self, runs: Sequence[Run], results: dict[str, Any], file: Path, bench: Path, say: Say
    ) -> None:
        """``results`` as `new_results` makes them of ``runs``; ``bench`` is the ladder's file."""
        self.runs = runs
        self.results = results
        self.records = dict(zip(runs, results["runs"], strict=True))
        self.file = file
        self.bench = bench
        self.say = say
        self.stop = threading.Event()
        self._start_s = time.monotonic()
        self._writing = threading.Lock()
        self.save()

    def save(self, finished: bool = False) -> None:
        """Write the results as they are now."""
        with self._writing:
            gpu_results.close(self.results, time.monotonic() - self._start_s, finished)
            gpu_results.write(self.results, self.file)

    def run_all(self, cwd: Path, environment: Mapping[str, str], seconds: float, jobs: int) -> None:
        """Run every process that is not left out: alone if it must be, else ``jobs`` at a time."""
        waiting = [run for run in self.runs if not run.left_out]
        budget = Budget(seconds, [run.part for run in waiting], gpu_parts.SHARES)

        def work(run: Run) -> None:
            if self.stop.is_set():
                return
            outcome = None
            if limit_s := budget.limit_s(run.part):
                self.records[run]["state"] = "running"
                self.save()
                outcome = run_child(run.command, limit_s, cwd, environment, self.stop)
            self._note(run, outcome)

        for alone, group in groupby(waiting, key=lambda run: run.alone):
            self._run_group(list(group), work, 1 if alone else jobs)
        self.save(finished=True)

    def _run_group(self, group: list[Run], work: Callable[[Run], None], jobs: int) -> None:
        with ThreadPoolExecutor(jobs) as pool:
            begun = [pool.submit(work, run) for run in group]
            try:
                for future in begun:
                    future.result()
            except (
                BaseException
            ):  # an interruption above all: those that run note how far they came
                self.stop.set()
                raise

    def _note(self, run: Run, outcome: Outcome | None) -> None:
        """Keep how a process ended, and say it; ``None`` is one that there was no time for."""
        record = self.records[run]
        if outcome is not None:
            gpu_results.note(record, outcome)
            if run.part == "bench":
                gpu_results.add_bench(self.results, self.bench)
        else:
            record["why"] = "the time was up"
        self.save()
        took = "" if outcome is None else f" in {outcome.seconds:.0f} s"
        self.say(f"{run.part}, {run.name}: {record['state']}{took}{reason(record)}")


def reason(record: Mapping[str, Any]) -> str:
    """Return why a process was skipped, or the last line of one that went wrong, as an ending."""
    said = record["why"]
    if record["state"] == "failed":
        said = said or "".join(record["last_lines"][-1:])
    return f": {said}" if said else ""


def set_up(device: str, model: str, scratch: Path, seconds: float) -> dict[str, Any]:
    """Return what `gpu_machine.py` finds here. CheckError where there is nothing to work with."""
    file = scratch / "machine.json"
    command = [sys.executable, str(Path(gpu_machine.__file__)), str(file)]
    command += ["--device", device, "--model", model]
    environment = gpu_parts.environment(ROOT, {})
    outcome = run_child(command, min(SET_UP_S, seconds), ROOT, environment, threading.Event())
    if outcome.state == "timed out":
        raise CheckError(
            f"looking at the machine takes longer than {outcome.seconds:.0f} s; give it more time "
            "with --minutes, or see what keeps `import torch`"
        )
    if outcome.state != "passed":
        said = outcome.said[-1] if outcome.said else "it said nothing"
        raise CheckError(f"looking at the machine fails after {outcome.seconds:.0f} s: {said}")
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found


def headline(found: Mapping[str, Any]) -> str:
    """Return machine and model in a line."""
    machine, model = found["machine"], found["model"] or {}
    on = f"{machine['device']}: {machine['device_name']}, torch {machine['versions']['torch']}"
    name = Path(model.get("directory", "no model")).name
    return f"{on}; {name}{': ' + model['why'] if model.get('why') else ''}"


def jobs(found: Mapping[str, Any]) -> int:
    """Return how many notebooks may run at a time: a GPU has room for several, a CPU has not."""
    on_gpu = str(found["machine"]["device"]).startswith("cuda")
    return max(1, min(4, (os.cpu_count() or 1) // 4)) if on_gpu else 1


def check(options: argparse.Namespace, say: Say) -> int:
    """Do the work and return the exit code."""
    start_s, seconds = time.monotonic(), 60 * options.minutes - RESERVE_S
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as name:
        scratch = Path(name)
        found = set_up(options.device, options.model, scratch, seconds)
        found["machine"]["source_commit"] = options.commit or found["machine"]["source_commit"]
        say(headline(found))
        runs = [run for part in options.parts for run in gpu_parts.runs(part, ROOT, found, scratch)]
        results = gpu_results.new_results(options.minutes, found, runs)
        bench = gpu_parts.bench_file(scratch)
        under_way = Check(runs, results, options.output, bench, say)
        for (part, why), number in Counter((run.part, run.left_out) for run in runs).items():
            if why:
                say(f"{part}: {number} skipped: {why}")
        left_s = seconds - (time.monotonic() - start_s)
        under_way.run_all(ROOT, gpu_parts.environment(ROOT, found), left_s, jobs(found))
    all_well = bool(results["passed"])
    say(f"{'everything passed' if all_well else 'not everything passed'}: see {options.output}")
    return 0 if all_well else 1


def parts(text: str) -> list[str]:
    """Return the parts that are named, each once, in the order in which they run."""
    wanted = set(filter(None, text.split(",")))
    if not wanted or wanted - set(PARTS):
        raise argparse.ArgumentTypeError(f"must name some of {', '.join(PARTS)}, not {text!r}")
    return [part for part in PARTS if part in wanted]


def minutes(text: str) -> float:
    """Return a number of minutes that leaves time for something."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.2 <= value <= 600:
        raise argparse.ArgumentTypeError(f"must be a number from 0.2 to 600, not {text!r}")
    return value


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="gpu_check.py", description=__doc__.splitlines()[0])
    made.add_argument("--device", default="cuda", choices=("auto", "cpu", "cuda"))
    made.add_argument("--model", default="auto", help="a name, a directory, auto, or random")
    made.add_argument("--parts", type=parts, default=list(PARTS), metavar=",".join(PARTS))
    made.add_argument("--minutes", type=minutes, default=8.0, help="for all of it (8)")
    made.add_argument("--output", default=OUTPUT, metavar="FILE", help=f"the results ({OUTPUT})")
    made.add_argument("--commit", help="what this is, where git cannot tell")
    return made


def interrupt(*_: object) -> NoReturn:
    """Treat a request to end like a person's Ctrl-C."""
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the check and return the exit code."""
    options = parser().parse_args(arguments)
    options.output = Path(options.output).absolute()
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        gpu_results.check_target(options.output)
        return check(options, lambda line: print(line, flush=True))
    except CheckError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: {error.filename or options.output}: {error.strerror}", file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
    return 2


if __name__ == "__main__":
    sys.exit(main())
