"""Runs the notebooks that are out of date, once, and keeps what they put out.

Knows when a run still counts: its key covers the notebook, the package, the model, the device and
the versions of what computes. What a run produced lies in `_build/executed`, each notebook beside
the record of its run. Pages are made from there by `pages.py`; tests read the same files.
"""

import json
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from notebook_keeper import EXECUTED, Keeper, read_record, record_path, sha256

SECONDS_A_CELL = 900
PINS = ("requirements.txt", ".ci/constraints.txt")


def surroundings(root: Path, model: Path, place: str) -> dict[str, Any]:
    """All that a result can depend on beside the notebook's own text, ready for JSON.

    `place` names device and number format, as chosen for this machine.
    """
    files = sorted(path for path in model.rglob("*") if path.is_file())
    sources = sorted(path for path in (root / "src").rglob("*") if is_source(path))
    sources += sorted((root / "book/results").glob("*.json"))  # chapter 18 shows them
    return {
        "python": sys.version,
        "machine": platform.machine(),
        "place": place,
        "model_name": model.name,
        "versions": versions(root),
        "model": [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in files],
        "package": {str(path.relative_to(root)): sha256(path.read_bytes()) for path in sources},
    }


def is_source(path: Path) -> bool:
    """Whether this is a file, and none that Python or pip left there."""
    return path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path)


def versions(root: Path) -> dict[str, str]:
    """The versions of the packages that the requirement files pin, of those that are here."""
    lines = [line for name in PINS for line in (root / name).read_text("utf-8").splitlines()]
    found = {}
    for name in sorted({line.split("==")[0].strip() for line in lines if "==" in line}):
        with suppress(PackageNotFoundError):  # some belong to the tests alone
            found[name] = version(name)
    return found


def run_key(notebook: Path, around: dict[str, Any]) -> str:
    """What decides whether an earlier run still counts, as one SHA-256."""
    return sha256(json.dumps([lesson(notebook), around], sort_keys=True).encode())


def lesson(notebook: Path) -> list[dict[str, Any]]:
    """What a run depends on: the cells, without outputs and whatever else JupyterLab writes."""
    cells: list[dict[str, Any]] = json.loads(notebook.read_text("utf-8"))["cells"]
    kept = ("cell_type", "id", "metadata")
    return [
        {name: cell.get(name) for name in kept} | {"source": "".join(cell["source"])}
        for cell in cells
    ]


def is_done(executed: Path, key: str) -> bool:
    """Whether `executed` is the complete, untouched result of a run with this key."""
    try:
        record = read_record(executed)
        return record["key"] == key and record["sha256"] == sha256(executed.read_bytes())
    except (OSError, ValueError, KeyError):
        return False


def run_stale(
    root: Path,
    notebooks: Iterable[Path],
    around: dict[str, Any],
    say: Callable[[str], None] = lambda _: None,
) -> tuple[list[Path], int]:
    """Run those of `notebooks` (paths below root) whose last run no longer counts.

    Returns those that failed and the number of notebooks run. Each result is kept as soon as its
    notebook has run through; a failing one leaves no result. What begins is told to `say`.
    """
    keys = {path: run_key(root / path, around) for path in notebooks}
    stale = [path for path, key in keys.items() if not is_done(root / EXECUTED / path, key)]
    if not stale:
        return [], 0
    say(f"Running {len(stale)} of {len(keys)} notebooks, some of them for minutes")
    say("They measure times: leave the machine to itself until they are done")
    for path in stale:
        record_path(root / EXECUTED / path).unlink(missing_ok=True)
        (root / EXECUTED / path).unlink(missing_ok=True)
    with staging(root) as stage:
        wanted = {stage / path.name: (path, keys[path]) for path in stale}
        for staged, (path, _) in wanted.items():
            shutil.copy(root / path, staged)
        keeper = Keeper(root, wanted, around)
        status = run_pytest(root, list(wanted), keeper)
    if keeper.stopped:
        raise KeyboardInterrupt
    missing = [path for path in stale if not is_done(root / EXECUTED / path, keys[path])]
    return missing or (stale if status else []), len(stale)


@contextmanager
def staging(root: Path) -> Iterator[Path]:
    """A folder beside notebooks/, as deep as it, so that relative paths mean the same in both.

    Not below `_build`, where nbmake runs nothing. It is gone afterwards, whatever happens.
    """
    with tempfile.TemporaryDirectory(prefix=".run-", dir=root) as name:
        yield Path(name)


def run_pytest(root: Path, staged: list[Path], keeper: Keeper) -> int:
    """Execute the staged notebooks by one call of nbmake, in this Python's own kernel."""
    options = ["--nbmake", "--overwrite", "--nbmake-kernel=python3"]
    options += [f"--nbmake-timeout={SECONDS_A_CELL}", f"--rootdir={root}", "-v"]
    # What the package imports may bring a pytest plugin along; it need not be rewritten for this.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    with kernel_environment(), keeper.listening():
        return pytest.main([*options, *map(str, staged)], plugins=[keeper])


@contextmanager
def kernel_environment() -> Iterator[None]:
    """See to it that "python3" means this Python, whatever kernels the reader has installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(Path(sys.prefix, "share", "jupyter")), prepend=os.pathsep)
        patch.setenv("PATH", sysconfig.get_path("scripts"), prepend=os.pathsep)
        yield
