"""The packages of the course as wheels in one folder, so that installing them builds nothing.

Knows which packages `requirements.txt` asks for and how pip is told to bring them. A package that
comes as source only would need a compiler on every learner's machine, and is refused.
"""

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename

from pages import BookError


def fill(root: Path, wheels: Path, options: list[str]) -> None:
    """Download the pinned packages for this machine and this Python, and build our own.

    `options` go to pip as they are. BookError with pip's own reason where it gets none.
    """
    wheels.mkdir(parents=True)
    lines = (root / "requirements.txt").read_text("utf-8").splitlines()
    pinned = [line.strip() for line in lines if "==" in line and not line.startswith("#")]
    constraints = ["--constraint", str(root / ".ci/constraints.txt")]
    only_wheels = ["--only-binary", ":all:", "--dest", str(wheels)]
    pip("download", [*only_wheels, *constraints, *options, *pinned])
    pip("wheel", ["--no-deps", "--wheel-dir", str(wheels), *options, str(root)])
    if strange := [path.name for path in wheels.iterdir() if path.suffix != ".whl"]:
        raise BookError(f"pip brought {strange[0]}, which is no wheel; pin a version that has one")


def pip(command: str, arguments: list[str]) -> None:
    """Run pip of this Python, showing its progress on a terminal. BookError in its own words."""
    shown = sys.stdout.isatty()
    quiet = [] if shown else ["-qq"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", command, "--no-input", *quiet, *arguments],
        stdout=None if shown else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
        reasons = [line for line in said if line.startswith("ERROR")] or said
        reason = reasons[-1].removeprefix("ERROR:").strip()
        raise BookError(f"pip {command} failed: {reason}; PIP_ARGS tells pip where to look")


def pins(wheels: Path) -> dict[str, str]:
    """The exact version of each package that lies in the folder, by its name."""
    parsed = [parse_wheel_filename(path.name)[:2] for path in sorted(wheels.glob("*.whl"))]
    return {str(name): str(version) for name, version in sorted(parsed)}


def unpacked_bytes(wheels: Path) -> int:
    """What the wheels take once they are installed, without what Python compiles from them."""
    total = 0
    for path in wheels.glob("*.whl"):
        with zipfile.ZipFile(path) as wheel:
            total += sum(member.file_size for member in wheel.infolist())
    return total


def oldest_python(wheels: Path) -> str:
    """The first release of this Python's series that every wheel says it runs on."""
    allowed = SpecifierSet(",".join(filter(None, map(requires_python, wheels.glob("*.whl")))))
    major, minor, micro = sys.version_info[:3]
    series = (f"{major}.{minor}.{number}" for number in range(micro + 1))
    return next(release for release in series if allowed.contains(release))


def requires_python(wheel: Path) -> str:
    """What a wheel's own description asks of Python, as a specifier; nothing if it does not say."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        words = [Parser().parsestr(archive.read(name).decode()) for name in names[:1]]
    return str(words[0]["Requires-Python"] or "") if words else ""
