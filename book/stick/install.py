"""Installs the course from the folder it lies in, without a network: `python install.py [FOLDER]`.

Needs the standard library and the Python that the folder was packed for, nothing else. Checks every
file first; FOLDER is whole at the end or gone.
"""

import argparse
import hashlib
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
UNFINISHED = ".unfinished"  # first file written, last one removed
MB = 1_000_000
WINDOWS = os.name == "nt"
RUN_POSIX = """\
#!/bin/sh
# Runs a command with the course's packages and model: ./run jupyter lab notebooks
cd "$(dirname -- "$0")" || exit 1
export INSIDE_GENERATE_HOME="$PWD/home" HF_HUB_OFFLINE=1 PATH="$PWD/venv/bin:$PATH"
exec "$@"
"""
RUN_WINDOWS = """\
@echo off
rem Runs a command with the course's packages and model: run jupyter lab notebooks
cd /d "%~dp0"
set "INSIDE_GENERATE_HOME=%~dp0home"
set "HF_HUB_OFFLINE=1"
set "PATH=%~dp0venv\\Scripts;%PATH%"
%*
"""


class OneLineParser(argparse.ArgumentParser):
    """A parser whose complaint is one line, like every other error here."""

    def error(self, message: str) -> NoReturn:
        """Say what was wrong and what to type, and end with exit code 2."""
        self.exit(2, f"error: {message}; type: python install.py [FOLDER]\n")


class InstallError(Exception):
    """What stands in the way: one line that says what to do."""


def install(here: Path, target: Path) -> None:
    """Check the folder `here` and install from it into `target`, which must not be in use yet."""
    record = json.loads((here / "stick.json").read_text("utf-8"))
    check_machine(record)
    check_target(here, target)
    check_space(target, record)
    check_sums(here)
    empty(target)
    (target / UNFINISHED).touch()
    try:
        install_packages(here, target / "venv")
        for name in ("home", "notebooks", "student", "site"):
            if (here / name).is_dir():
                say(f"Copying {name}")
                shutil.copytree(here / name, target / name)
        write_run(target, record)
    except BaseException:
        empty(target)
        if target != Path.cwd():
            with suppress(OSError):  # a link stays, with an empty folder behind it
                target.rmdir()
        raise
    (target / UNFINISHED).unlink()


def empty(target: Path) -> None:
    """Make `target` an empty folder. One that is there stays, since somebody may stand in it."""
    target.resolve().mkdir(parents=True, exist_ok=True)
    for one in sorted(target.iterdir(), key=lambda one: one.name == UNFINISHED):  # the mark last
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one, ignore_errors=True)
        else:
            one.unlink()


def check_machine(record: dict[str, Any]) -> None:
    """Raise unless this Python and this machine can use the wheels of the folder."""
    here = (platform.system(), platform.machine())
    if not python_fits(record) or here != (record["system"], record["machine"]):
        raise InstallError(
            f"this folder is for Python {record['python']}, {record['python_at_least']} or later "
            f"in that series, on {record['system']} ({record['machine']}), and this is Python "
            f"{platform.python_version()} on {here[0]} ({here[1]}); ask for the folder of your "
            "system, or read the pages in site/index.html"
        )


def python_fits(record: dict[str, Any]) -> bool:
    """Whether the wheels of the folder can be installed into this Python."""
    oldest = tuple(map(int, record["python_at_least"].split(".")))
    return sys.version_info[:2] == oldest[:2] and sys.version_info[:3] >= oldest


def check_target(here: Path, target: Path) -> None:
    """Raise where something is at `target` already, unless it is an install that was cut off."""
    above = next(one for one in (target, *target.parents) if one.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise InstallError(f"{above} is no folder that can be written into; name another one")
    if os.pathsep in str(target):
        raise InstallError(
            f"{target} has a {os.pathsep} in it, which stands between paths; name another folder"
        )
    if target == here or here in target.parents:
        raise InstallError(f"{target} lies in the folder to install from; name another one")
    if target.exists() and not (target / UNFINISHED).is_file() and any(target.iterdir()):
        raise InstallError(
            f"{target} is there already and may hold your work; go on with it, or delete it and "
            "type this again, or name another folder"
        )


def check_space(target: Path, record: dict[str, Any]) -> None:
    """Raise where the disk has no room for packages, model, notebooks and pages."""
    parts = ("pages", "notebooks", "model")
    wanted = sum(record["bytes"][part] for part in parts) + record["packages_unpacked_bytes"]
    free = shutil.disk_usage(next(one for one in target.parents if one.exists())).free
    if free < wanted * 1.1:  # Python compiles what it imports
        raise InstallError(
            f"{target} needs {wanted * 1.1 / MB:,.0f} MB and the disk has {free / MB:,.0f} MB "
            "free; make room, or name a folder on another disk"
        )


def check_sums(here: Path) -> None:
    """Raise unless each file is there, with the bytes it had when it was packed."""
    lines = (here / "SHA256SUMS").read_text("utf-8").splitlines()
    for number, line in enumerate(lines):
        digest, name = line.split("  ", 1)
        progress(f"Checking the files: {100 * number // len(lines)} %")
        try:
            with (here / name).open("rb") as file:
                right = hashlib.file_digest(file, "sha256").hexdigest() == digest
        except OSError as error:
            raise InstallError(f"{name} cannot be read ({error.strerror}); copy it again") from None
        if not right:
            raise InstallError(f"{name} is not as it was packed; copy the folder again")
    say("Checked every file")


def install_packages(here: Path, environment: Path) -> None:
    """Make a virtual environment with the packages of the folder, and of nowhere else."""
    say("Installing the packages (some minutes)")
    python = environment / ("Scripts/python.exe" if WINDOWS else "bin/python")
    call([sys.executable, "-m", "venv", str(environment)])
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-index"]
    call([*pip, "--find-links", str(here / "wheels"), "-r", str(here / "requirements.txt")])


def call(command: list[str]) -> None:
    """Run a command, away from the settings that pip may have on this machine."""
    around = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    around |= {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, env=around, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise InstallError(f"{' '.join(command[1:4])} failed: {(lines or ['no reason given'])[-1]}")


def write_run(target: Path, record: dict[str, Any]) -> None:
    """Write the command that finds packages and model, in the words of this system."""
    text = RUN_WINDOWS if WINDOWS else RUN_POSIX
    if not record["model_is_of_the_course"]:  # it has no name to be found by
        model = record["model"]
        line = f'export INSIDE_GENERATE_MODEL="$PWD"/home/models/{shlex.quote(model)}\n'
        if WINDOWS:
            line = f'set "INSIDE_GENERATE_MODEL=%~dp0home\\models\\{model}"\n'
        first, last = text.rstrip("\n").rsplit("\n", 1)
        text = f"{first}\n{line}{last}\n"
    path = target / ("run.cmd" if WINDOWS else "run")
    path.write_text(text, encoding="utf-8", newline="\r\n" if WINDOWS else "\n")
    path.chmod(0o755)


def place(folder: str) -> Path:
    """The folder that was typed, in full."""
    try:
        return Path(folder).expanduser().absolute()
    except RuntimeError:
        raise InstallError(
            f"{folder} lies in a home that is not known; write a whole path"
        ) from None


def say(line: str) -> None:
    """One line on its own, over what showed progress."""
    sys.stdout.write(("\r\x1b[K" if sys.stdout.isatty() else "") + line + "\n")
    sys.stdout.flush()


def progress(words: str) -> None:
    """Show how far it is, where somebody looks."""
    if sys.stdout.isatty():
        sys.stdout.write(f"\r{words}")
        sys.stdout.flush()


def main() -> int:
    """Install, say what to type next, and return the exit status."""
    parser = OneLineParser(description="Install the course from this folder.")
    parser.add_argument("folder", nargs="?", default="~/inside-generate")
    parser.add_argument("--python-fits", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        if options.python_fits:
            return int(not python_fits(json.loads((HERE / "stick.json").read_text("utf-8"))))
        target = place(options.folder)
        for name in ("SIGTERM", "SIGHUP"):  # a request to end leaves nothing behind either
            number = getattr(signal, name, None)  # Windows has one of them
            if number and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, signal.default_int_handler)
        install(HERE, target)
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error.strerror or error} ({error.filename})", file=sys.stderr)
        return 1
    except (KeyError, ValueError):
        print("error: this folder is not whole; copy it again", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; nothing was left behind", file=sys.stderr)
        return 130
    path = str(target / "run")
    run = f'"{path}"' if WINDOWS else shlex.quote(path)
    print("Installed. Now type:")
    print(f"  {run} python -m inside_generate doctor")
    print(f"  {run} jupyter lab notebooks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
