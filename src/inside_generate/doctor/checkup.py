"""What is installed: Python, the packages against their pins, the course's own variables.

What it knows: what a finding is (``Check``), and where the pins stand. What it leaves to others:
the machine (``checkup_machine``), models and network (``checkup_models``), the verdict
(``doctor``). Nothing heavy is imported at the top: this must work where torch does not.
"""

from __future__ import annotations

import difflib
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path

OK, INFO, WARN, FAIL = "ok", "info", "warn", "fail"

OLDEST_PYTHON = (3, 11)
DISTRIBUTION = "inside-generate"
VARIABLES = tuple(
    f"INSIDE_GENERATE_{name}" for name in ("HOME", "MODEL", "DEVICE", "DTYPE", "SERVER", "NO_SKIPS")
)


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report."""

    name: str
    state: str  # "ok", "info" (as good as ok), "warn" (works without), "fail" (does not work)
    finding: str
    remedy: str | None = None  # what to type
    short: str | None = None  # what the verdict says of it
    missing: str | None = None  # something optional that is not here, by name


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Check:
    """Is this Python new enough, and is it one of a virtual environment?"""
    number = ".".join(map(str, version))
    if version < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        return Check(
            "Python",
            FAIL,
            f"{number} ({sys.executable}) is too old: {wanted} or later is needed",
            f"make book PYTHON=/path/to/python{wanted}",
        )
    where = f"{number} ({sys.executable})"
    if _apart():
        return Check("Python", OK, f"{where}, in an environment of its own", None, number)
    return Check("Python", INFO, f"{where}, not in a virtual environment", None, number)


def _apart() -> bool:
    return sys.prefix != sys.base_prefix or "CONDA_PREFIX" in os.environ


def variables(environment: Mapping[str, str] = os.environ) -> Check:
    """Which of the course's variables are set, and is one misspelt?"""
    wrong = {name: meant for name in environment if (meant := _misspelt(name)) is not None}
    if wrong:
        name, meant = next(iter(wrong.items()))
        others = f", and {', '.join(list(wrong)[1:])}" if len(wrong) > 1 else ""
        guess = f"did you mean {meant}?" if meant else f"there are {', '.join(VARIABLES)}"
        return Check("variables", WARN, f"{name} means nothing here{others}: {guess}")
    found = [f"{name}={environment[name]}" for name in VARIABLES if environment.get(name)]
    return Check("variables", OK, ", ".join(found) or "none of INSIDE_GENERATE_… is set")


def _misspelt(name: str) -> str | None:
    """Return the variable that was meant, "" for an unknown one of ours, ``None`` for any other."""
    if name in VARIABLES:
        return None
    near = difflib.get_close_matches(name.upper(), VARIABLES, n=1, cutoff=0.85)
    if near:
        return near[0]
    return "" if name.upper().startswith("INSIDE_GENERATE") else None


# --- packages -------------------------------------------------------------------------------------


def packages() -> Check:
    """Is each package here, in the version that is pinned, or at least in one that works?"""
    from packaging.requirements import Requirement

    works = {request.name: request.specifier for request in map(Requirement, _ranges())}
    pins = [Requirement(line) for line in _pins() or _ranges()]
    pins = [pin for pin in pins if pin.marker is None or pin.marker.evaluate()]
    broken: list[str] = []  # of what the package's own code needs
    odd: list[str] = []  # of what only pages and tests need, or the code as well
    for pin in pins:
        version = _version(pin.name)
        if version is None:
            (broken if pin.name in works else odd).append(f"{pin.name} is missing")
        elif pin.name in works and not works[pin.name].contains(version, prereleases=True):
            broken.append(f"{pin.name} {version} is here and {works[pin.name]} is needed")
        elif not pin.specifier.contains(version, prereleases=True):
            odd.append(f"{pin.name} {version} is here and {pin.specifier} is pinned")
    if not broken and not odd:
        return Check("packages", OK, f"{len(pins)} of {len(pins)} as asked for")
    return Check("packages", FAIL if broken else WARN, "; ".join(broken + odd), install_command())


def libraries() -> Check:
    """Can torch and transformers be imported?"""
    versions = []
    for name in ("torch", "transformers"):
        try:
            versions.append(f"{name} {import_module(name).__version__}")
        except Exception as error:  # a broken installation raises anything
            finding = f"{name} cannot be imported: {first_line(error)}"
            broken = None if isinstance(error, ModuleNotFoundError) else name
            return Check("libraries", FAIL, finding, install_command(broken))
    return Check("libraries", OK, f"{' and '.join(versions)} work", None, ", ".join(versions))


def checkout() -> Path | None:
    """Return the root of the course's own checkout; ``None`` where it is installed elsewhere."""
    folder = Path(__file__).resolve().parents[2]
    whole = folder.name == "src" and (folder.parent / "requirements.txt").is_file()
    return folder.parent if whole else None


def install_command(broken: str | None = None) -> str:
    """Return what to type to bring the packages into order, or to put one ``broken`` one right."""
    root = checkout()
    pip = f"{shlex.quote(sys.executable)} -m pip install"
    if broken:
        pin = next((line for line in _pins() + _ranges() if line.startswith(broken)), broken)
        return f"{pip} --force-reinstall {shlex.quote(pin)}"
    if root is None:
        return f"{pip} --upgrade {DISTRIBUTION}"
    if not _apart() and shutil.which("make"):
        return "make book"  # into an environment of its own: a system's Python may refuse
    return f"{pip} -r {shlex.quote(str(root / 'requirements.txt'))}"


def _ranges() -> list[str]:
    """Return what the package's code was written for, one line a package.

    A checkout is asked itself: what pip noted when it was installed may be older.
    """
    root = checkout()
    if root is None:
        return metadata.requires(DISTRIBUTION) or []
    import tomllib

    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    lines = tomllib.loads(text)["project"]["dependencies"]
    return [str(line) for line in lines]


def _pins() -> list[str]:
    """Return the lines of the checkout's requirements.txt that name a package."""
    root = checkout()
    if root is None:
        return []
    lines = (root / "requirements.txt").read_text(encoding="utf-8").splitlines()
    bare = (line.partition("#")[0].strip() for line in lines)
    return [line for line in bare if line and not line.startswith("-")]


def setting(name: str, value: str = "") -> str:
    """Return what to type to set a variable, or to unset it."""
    if os.name == "nt":
        return f"set {name}={value}"
    return f"export {name}={value}" if value else f"unset {name}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its kind where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
