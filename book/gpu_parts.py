"""The parts of a GPU check: the processes that make them up, and which are left out and why.

Knows the notebooks by their files and the model by what `gpu_machine.py` found. How long a process
may take, and what becomes of it, is left to `gpu_check.py`.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpu_cells
import gpu_peak

PARTS = ("tests", "bench", "notebooks")  # in this order: the notebooks take what time is left
SHARES = {"tests": 0.25, "bench": 0.4, "notebooks": 0.35}  # of the time, while others still wait
# These hold with random weights too; the others are about what a trained model answers.
TIME_AND_MEMORY = ("10_", "11_", "12_", "18_")
ANSWERS = "with random weights only the notebooks about time and memory run"


@dataclass(frozen=True)
class Run:
    """One process of a part."""

    part: str
    name: str
    command: tuple[str, ...] = ()
    left_out: str = ""  # why it does not run
    alone: bool = True  # nothing else may run beside it


def runs(part: str, root: Path, found: Mapping[str, Any], scratch: Path) -> list[Run]:
    """Return the processes of a part; one that is left out when the part cannot run at all."""
    if why := found["cannot_run"][part]:
        return [Run(part, part, left_out=why)]
    device = found["machine"]["device"]
    if part == "tests":
        # Another version of a library warns of other things: shown, and no error.
        how = ("-v", "-W", "default", "-p", "no:cacheprovider")
        return [Run(part, part, (sys.executable, "-m", "pytest", "tests/gpu", *how))]
    if part == "bench":
        options = ["--model", found["model"]["directory"], "--device", device]
        options += ["--output", str(bench_file(scratch))]
        watched = (str(Path(gpu_peak.__file__)), "inside_generate", "bench")
        return [Run(part, part, (sys.executable, *watched, *options))]
    return notebook_runs(root, found["model"]["random_weights"])


def notebook_runs(root: Path, random_weights: bool) -> list[Run]:
    """Return one process a notebook, those about time and memory first and by themselves."""
    notebooks = sorted((root / "notebooks").glob("*.ipynb"))
    found = []
    for notebook in sorted(notebooks, key=lambda path: not measures(path)):
        left_out = "" if measures(notebook) or not random_weights else ANSWERS
        command = (sys.executable, str(Path(gpu_cells.__file__)), str(notebook))
        found.append(Run("notebooks", notebook.stem, command, left_out, alone=measures(notebook)))
    return found


def measures(notebook: Path) -> bool:
    """Return whether a notebook is about time and memory."""
    return notebook.name.startswith(TIME_AND_MEMORY)


def bench_file(scratch: Path) -> Path:
    """Return where the ladder leaves its result."""
    return scratch / "bench.json"


def environment(root: Path, found: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of the processes: this checkout, this model and device, no network."""
    folders = [str(root / "src"), str(root / "book"), os.environ.get("PYTHONPATH", "")]
    settings = {
        "PYTHONPATH": os.pathsep.join(filter(None, folders)),
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        "HF_HUB_OFFLINE": "1",
    }
    if found.get("model"):
        settings["INSIDE_GENERATE_MODEL"] = found["model"]["directory"]
        settings["INSIDE_GENERATE_DEVICE"] = found["machine"]["device"]
    return {**os.environ, **settings}
