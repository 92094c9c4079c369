"""Rehearses a class: `python book/room.py [--learners N] [--notebook NAME]`.

Starts a JupyterHub on this machine's loopback address with the configuration of `workshop/`, lets
learners log in and run a chapter at the same time on one read-only copy of the model, and writes
what each took to `_build/workshop/hub.json`.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import installed  # noqa: F401

# isort: split
import psutil

import endings
import room_hub
from inside_generate.arguments import OneLineParser, whole_number
from inside_generate.checkpoints import WEIGHTS
from inside_generate.device import cpu_name
from inside_generate.environment import source_commit
from inside_generate.finding import find
from inside_generate.record import check_target, write_json
from offline import STUDENT, name_of
from pages import BookError
from room_learner import Learner
from room_memory import Room, of_file, rollup

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("_build/workshop")
RECORD = FOLDER / "hub.json"
COURSE = "inside-generate"
# Run in each learner's kernel: what a careless learner could do to the model of all.
TRY_TO_WRITE = """
from inside_generate.finding import find
for target in [find() / "model.safetensors", find() / "new file", find().parent / "new folder"]:
    try:
        open(target, "r+b" if target.exists() else "wb")
    except OSError:
        continue
    raise AssertionError(f"{target} can be written")
"""


@contextmanager
def shared_home(model: Path, folder: Path, python: Path) -> Iterator[Path]:
    """One copy of the model for all, with what is measured once, and no right to write it."""
    home = folder / "home"
    shutil.copytree(model, home / "models" / name_of(model))
    around = os.environ | {"INSIDE_GENERATE_HOME": str(home), "INSIDE_GENERATE_MODEL": "auto"}
    around["OMP_NUM_THREADS"] = os.environ.get("COURSE_THREADS") or "1"  # as learners' kernels have
    command = [str(python), "-m", "inside_generate", "doctor"]
    done = subprocess.run(command, env=around, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BookError(f"doctor says: {(done.stdout + done.stderr).strip().splitlines()[-1]}")
    everything = [home, *home.rglob("*")]
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield home
    finally:
        for path in everything:
            path.chmod(0o755 if path.is_dir() else 0o644)


@contextmanager
def empty_folder() -> Iterator[Path]:
    """A folder for one rehearsal, with a short path: kernels have their sockets below it."""
    with tempfile.TemporaryDirectory(prefix="r-", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


def material(root: Path, folder: Path) -> Path:
    """What learners get a copy of: the students' edition where it was made, else the notebooks."""
    target = folder / "material"
    if (root / STUDENT).is_dir():
        shutil.copytree(root / STUDENT, target)
    else:
        shutil.copytree(root / "notebooks", target / "notebooks")
    return target


def rehearse(root: Path, learners: int, notebook: str) -> dict[str, Any]:
    """Let `learners` run `notebook` at the same time; return what it took.

    BookError where something cannot be set up, or goes wrong for a learner.
    """
    model = find()
    record = about(model, notebook)
    python, proxy = room_hub.set_up(root / FOLDER)
    names = [f"learner{number}" for number in range(1, learners + 1)]
    lesson = f"{COURSE}/notebooks/{notebook}.ipynb"
    with empty_folder() as state, shared_home(model, state, python) as home:
        shared = {
            "COURSE_SHARED_HOME": str(home),
            "COURSE_MATERIAL": str(material(root, state)),
            "COURSE_FIRST_LOGIN": str(room_hub.WORKSHOP / "first_login.py"),
            "COURSE_PYTHON": str(python),
            "COURSE_LEARNERS": str(learners),
            "INSIDE_GENERATE_MODEL": "auto",
        }
        (state / room_hub.HOMES).mkdir()
        with room_hub.running(python, proxy, state, names, shared) as hub:
            room = Room(hub.process, state / room_hub.HOMES)
            with room, ThreadPoolExecutor(learners) as pool:
                lessons = pool.map(lambda name: attend(hub, name, lesson), names)
                try:
                    took = dict(zip(names, lessons, strict=True))
                except BaseException:
                    room_hub.end(hub.process)  # so that no learner waits for it any longer
                    raise
                room.sample()
                mapped = {
                    name: of_file(pids[0], WEIGHTS) for name, pids in room.kernels().items() if pids
                }
                own = sum(rollup(one.pid).get("Pss", 0) for one in hub_itself(hub.process))
    return record | {
        "learners": [
            {"name": name, **took[name], **most(room, name), "weights_mapped": mapped.get(name, {})}
            for name in names
        ],
        "together_pss_bytes": room.most_together,
        "hub_pss_bytes": own,
        "writing_was_tried_as": "the administrator"
        if room_hub.ordinary_user() is None
        else "an ordinary user",
    }


def attend(hub: room_hub.Hub, name: str, lesson: str) -> dict[str, Any]:
    """What one learner does in a rehearsal, with the seconds it took."""
    learner = Learner(hub.address, name, hub.password)
    start_s = learner.start_server()
    page = learner.server("GET", f"lab/tree/{lesson}").status_code
    start = time.perf_counter()
    cells = learner.run_notebook(lesson)
    seconds = time.perf_counter() - start
    if room_hub.ordinary_user() is not None:
        learner.run_cells(lesson, [TRY_TO_WRITE])
    return {
        "server_start_s": round(start_s, 1),
        "page_status": page,
        "cells": cells,
        "chapter_s": round(seconds, 1),
    }


def hub_itself(process: psutil.Process) -> list[psutil.Process]:
    """The hub, its proxy and its services, without the learners' servers."""
    direct = [
        child
        for child in process.children()
        if not any("singleuser" in word or "first_login" in word for word in child.cmdline())
    ]
    return [process, *direct, *(one for child in direct for one in child.children(recursive=True))]


def most(room: Room, name: str) -> dict[str, int]:
    """The most memory that one learner's server and kernels took together."""
    return {f"{kind}_bytes": count for kind, count in room.most[name].items()}


def about(model: Path, notebook: str) -> dict[str, Any]:
    """When, where and with what a rehearsal is held; asked before it begins."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "source_commit": source_commit(),
        "notebook": notebook,
        "model": name_of(model),
        "weights_bytes": (model / WEIGHTS).stat().st_size if (model / WEIGHTS).is_file() else None,
        "device_name": cpu_name(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.platform(),
        "load_before": round(os.getloadavg()[0], 1),
        "versions": {name: version(name) for name in ("torch", "transformers", "jupyterlab")},
    }


def main() -> int:
    """Parse the command line, rehearse, write the record, and return the exit status."""
    parser = OneLineParser(prog="python book/room.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--learners", type=whole_number(1), default=3)
    parser.add_argument("--notebook", default="00_the_whole_path")
    parser.add_argument("--output", type=Path, default=ROOT / RECORD)
    options = parser.parse_args()
    return endings.run(lambda: hold(options.learners, options.notebook, options.output))


def hold(learners: int, notebook: str, output: Path) -> None:
    """Rehearse and write the record. What cannot work is said before anything starts."""
    if not (ROOT / "notebooks" / f"{notebook}.ipynb").is_file() or Path(notebook).name != notebook:
        raise BookError(
            f"there is no notebook {notebook!r}: --notebook takes a name from notebooks/"
        )
    check_target(output)
    record = rehearse(ROOT, learners, notebook)
    print(f"{learners} learners ran {notebook}; see {write_json(record, output)}")


if __name__ == "__main__":
    sys.exit(main())
