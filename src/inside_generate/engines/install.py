"""An environment of its own for each engine, whole or not there.

What it knows: where the environments lie, the order of the steps, and the marker that is written
last: a folder without it was left half-made and is made again. What it leaves to others: which
packages (`kinds`), running the engine (`running`).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from inside_generate.beyond.children import end
from inside_generate.engines.errors import EngineError
from inside_generate.engines.kinds import KINDS, Kind, find_kind, install_command
from inside_generate.home import home
from inside_generate.locks import one_at_a_time

MARKER = "inside_generate_engine.json"
COMPILERS = ("c++", "g++", "clang++")

Say = Callable[[str], None]


def engine_directory(name: str) -> Path:
    """Return the folder of an engine's environment."""
    return home() / "engines" / name


def python_of(name: str) -> Path:
    """Return the Python of an engine's environment."""
    folder = engine_directory(name)
    return folder / "Scripts/python.exe" if os.name == "nt" else folder / "bin/python"


def installed() -> list[str]:
    """Return the names of the engines that can be used on this machine."""
    return [name for name in KINDS if installed_package(name)]


def installed_package(name: str) -> str | None:
    """Return the pinned package in an engine's environment; ``None`` where it is not whole.

    One that was made for another version counts as not there: figures name the pinned one.
    """
    try:
        marker = json.loads((engine_directory(name) / MARKER).read_text(encoding="utf-8"))
        package = marker["package"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    known = package in KINDS[name].packages.values()
    return str(package) if known and python_of(name).is_file() else None


def device_of(name: str) -> str:
    """Return what an engine computes on: ``cuda`` where its package is made for that, else ``cpu``.

    llama.cpp has one package for both, and is not asked to put layers on a GPU.
    """
    packages = find_kind(name).packages
    has_own = packages["cuda"] != packages["cpu"]
    return "cuda" if has_own and installed_package(name) == packages["cuda"] else "cpu"


def listing() -> list[str]:
    """Return one line for each engine: whether it is there, what to type, what it needs."""
    lines = []
    for kind in KINDS.values():
        package = installed_package(kind.name)
        state = f"installed: {package}, in {engine_directory(kind.name)}"
        if package is None:
            state = f"not installed; type `{install_command(kind.name)}`. Needs {kind.needs}"
        lines.append(f"{kind.name:<11}{state}")
    return lines


def install(name: str, say: Say = lambda _: None) -> Path:
    """Make the environment of an engine unless it is there; each step is told to ``say``."""
    kind = find_kind(name)
    busy = f"{name}: another installation is at work; waiting for it"
    with _disk_errors_in_a_line(name), one_at_a_time(f"engine-{name}", busy, say):
        if package := installed_package(name):
            say(f"{name} is installed: {package}")
            return engine_directory(name)
        if kind.compiles:
            _check_compiler(name)
        _make(kind, "cuda" if _has_cuda() else "cpu", say)
    return engine_directory(name)


def _make(kind: Kind, device: str, say: Say) -> None:
    """Fill the folder from nothing; the marker comes last."""
    folder, package = engine_directory(kind.name), kind.packages[device]
    _remove(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    say(f"{kind.name}: making an environment in {folder}")
    _run(kind.name, "the environment", [sys.executable, "-m", "venv", str(folder)])
    say(f"{kind.name}: installing {package}. Needs {kind.needs}")
    _pip(kind.name, package, "install", package)
    if taken_out := kind.taken_out.get(device):
        say(f"{kind.name}: taking out {', '.join(taken_out)}")
        _pip(kind.name, "what it does not need", "uninstall", "--yes", *taken_out)
    say(f"{kind.name}: trying to import it")
    python = str(python_of(kind.name))
    _run(kind.name, f"`import {kind.module}`", [python, "-I", "-c", f"import {kind.module}"])
    (folder / MARKER).write_text(json.dumps({"package": package}) + "\n", encoding="utf-8")


def _pip(name: str, what: str, command: str, *arguments: str) -> None:
    quiet = ["--no-input", "--disable-pip-version-check"]
    python = str(python_of(name))
    _run(name, what, [python, "-I", "-m", "pip", command, *quiet, *arguments])


def _run(name: str, what: str, command: list[str]) -> None:
    """Run one step. Its progress is seen on a terminal; errors go to a file, their gist is said."""
    log = home() / "engines" / f"{name}.log"
    with log.open("w", encoding="utf-8") as file:
        shown = None if sys.stdout is not None and sys.stdout.isatty() else file
        code = _exit_code(command, shown, file)
    if code != 0:
        raise EngineError(
            f"{name}: {what} failed: {_gist(log)}; all it said is in {log}; to try again type "
            f"`{install_command(name)}`"
        )


def _exit_code(command: list[str], stdout: IO[str] | None, stderr: IO[str]) -> int:
    """Run a command to its end; interrupted, it leaves no compiler at work and no scratch files."""
    with tempfile.TemporaryDirectory(prefix="inside_generate_") as scratch:
        process = subprocess.Popen(
            command,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, "TMPDIR": scratch},
            start_new_session=True,  # Ctrl-C in a terminal is ours to answer
        )
        try:
            return process.wait()
        finally:
            end(process)


def _gist(log: Path) -> str:
    """Return the last line of a log that calls itself an error, else the last line of all."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    lines = [line.strip() for line in lines if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error:")]
    return (errors or lines or ["it did not say why"])[-1]


def _check_compiler(name: str) -> None:
    """Raise before minutes are spent where there is nothing to compile with."""
    if os.name == "nt" or os.environ.get("CXX") or any(map(shutil.which, COMPILERS)):
        return
    raise EngineError(
        f"{name} is compiled while it is installed, and there is no C++ compiler here "
        f"({', '.join(COMPILERS)}); install one, then type `{install_command(name)}`"
    )


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _remove(folder: Path) -> None:
    if folder.is_symlink():  # what it points to is somebody else's
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


@contextlib.contextmanager
def _disk_errors_in_a_line(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else error
        raise EngineError(
            f"{name} cannot be installed in {home()} ({what}); set "
            f"INSIDE_GENERATE_HOME to a folder with room, then type `{install_command(name)}`"
        ) from error
