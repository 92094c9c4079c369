"""Packs the course for a room without a network: `python book/offline.py [--output FOLDER]`.

Into one folder: the pages, the notebooks, the packages as wheels, the model, and an installer that
needs nothing else. The folder appears whole or not at all. Knows what belongs on the stick; which
packages those are knows `wheelhouse.py`, and what a learner's machine does with it `stick/`.
"""

import json
import os
import platform
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import installed  # noqa: F401

# isort: split
import endings
import wheelhouse
from in_place import put_in_place
from inside_generate.arguments import OneLineParser
from inside_generate.checkpoints import CHECKPOINTS, REFERENCE
from inside_generate.environment import source_commit
from inside_generate.errors import in_a_line
from inside_generate.finding import find
from inside_generate.getting.hub import find_in_hub_cache
from inside_generate.getting.integrity import read_manifest, write_manifest
from packed_folder import RECORD, SUMS, check_replaceable, sums
from pages import HTML, BookError

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = Path("_build/offline")
STUDENT = Path("_build/student")
WHEELS_AT_LEAST = 500_000_000  # bytes; how many there will be is known once they are here
MB = 1_000_000

Say = Callable[[str], None]


def pack(root: Path, output: Path, pip_options: list[str], say: Say) -> dict[str, Any]:
    """Make the folder `output` for machines like this one; return its record.

    BookError, in one line, where pages or disk space are missing or pip gets no wheel;
    InsideGenerateError where there is no model. What was at `output` stays until the new one is
    whole.
    """
    start = time.perf_counter()
    output = Path(os.path.realpath(output))  # what a link leads to is replaced, not the link
    site, model = root / HTML, find()
    if not (site / "index.html").is_file():
        raise BookError("there are no pages yet; type: make book")
    check_replaceable(output)
    parts = sources(root, site, model)
    check_space(output, size(parts.values()) + WHEELS_AT_LEAST)
    stage = output.with_name(f".{output.name}.partial")
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    try:
        record = fill(root, stage, parts, model, pip_options, say)
        record["seconds"] = round(time.perf_counter() - start)
        write(stage / RECORD, json.dumps(record, indent=1) + "\n")
        say("Working out the sums")
        write(stage / SUMS, sums(stage))
        put_in_place(stage, output)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return record


def sources(root: Path, site: Path, model: Path) -> dict[str, Path]:
    """The folders that are copied as they are, by their place on the stick."""
    parts = {
        "site": site,
        "notebooks": root / "notebooks",
        f"home/models/{name_of(model)}": model,
    }
    return parts | ({"student": root / STUDENT} if (root / STUDENT).is_dir() else {})


def name_of(model: Path) -> str:
    """What the course calls a model's folder; that of another model keeps its own name."""
    manifest = read_manifest(model)
    if manifest and manifest["name"] in CHECKPOINTS:
        return str(manifest["name"])
    return REFERENCE if find_in_hub_cache(CHECKPOINTS[REFERENCE]) == model else model.name


def fill(
    root: Path, stage: Path, parts: dict[str, Path], model: Path, pip_options: list[str], say: Say
) -> dict[str, Any]:
    """Put everything into `stage` but the sums; return what is worth knowing about it."""
    say("Getting the packages as wheels")
    wheels = stage / "wheels"
    wheelhouse.fill(root, wheels, pip_options)
    check_space(stage, size(parts.values()))
    for place, folder in parts.items():
        say(f"Copying {place} ({size([folder]) / MB:,.0f} MB)")
        shutil.copytree(folder, stage / place, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    name = name_of(model)
    copy = stage / "home/models" / name
    if name in CHECKPOINTS and not read_manifest(copy):  # it came from the hub's own cache
        write_manifest(copy, name, CHECKPOINTS[name].model_id, CHECKPOINTS[name].revision)
    pins = wheelhouse.pins(wheels)
    write(stage / "requirements.txt", "".join(f"{name}=={pins[name]}\n" for name in pins))
    record = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "source_commit": source_commit(),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "python_at_least": wheelhouse.oldest_python(wheels),
        "system": platform.system(),
        "machine": platform.machine(),
        "model": name,
        "model_is_of_the_course": name in CHECKPOINTS,
        "packages": len(pins),
        "torch": pins.get("torch"),
        "bytes": {
            "pages": size([stage / "site"]),
            "notebooks": size(stage / name for name in ("notebooks", "student")),
            "packages": size([wheels]),
            "model": size([stage / "home"]),
        },
        "packages_unpacked_bytes": wheelhouse.unpacked_bytes(wheels),
    }
    write_installer(root, stage, record)
    return record


def write_installer(root: Path, stage: Path, record: dict[str, Any]) -> None:
    """Put the installer and the first page to read beside what they install."""
    for path in sorted((root / "book/stick").iterdir()):
        if path.is_file():
            text = path.read_text("utf-8")
            for key in ("python_at_least", "python", "system", "machine", "model"):
                text = text.replace(f"@{key.upper()}@", record[key])
            sizes = {name: f"{count / MB:,.0f} MB" for name, count in record["bytes"].items()}
            for name, words in sizes.items():
                text = text.replace(f"@{name.upper()}_SIZE@", words)
            write(stage / path.name, text, "\r\n" if path.suffix in (".cmd", ".txt") else "\n")
    (stage / "install.sh").chmod(0o755)


def write(path: Path, text: str, newline: str = "\n") -> None:
    """Write a text file with the line ends of those who will read it."""
    path.write_text(text, encoding="utf-8", newline=newline)


def size(paths: Iterable[Path]) -> int:
    """The bytes of all files at and below `paths`; a link counts as what it leads to."""
    files = [file for path in paths for file in (path, *path.rglob("*")) if file.is_file()]
    return sum(file.stat().st_size for file in files)


def check_space(folder: Path, wanted: int) -> None:
    """Raise where the disk behind `folder` has no room for `wanted` more bytes."""
    existing = next(one for one in (folder, *folder.parents) if one.exists())
    free = shutil.disk_usage(existing).free
    if free < wanted:
        raise BookError(
            f"{folder} needs {wanted / MB:,.0f} MB more and the disk has {free / MB:,.0f} MB free; "
            "make room, or name a folder on another disk with --output"
        )


def main() -> int:
    """Parse the command line, pack, and return the exit status."""
    parser = OneLineParser(
        prog="python book/offline.py", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--output", type=Path, help=f"the folder to make (default {OUTPUT})")
    words = 'what pip is told, as one text: --pip-args="--pre"'
    parser.add_argument("--pip-args", default="", help=words)
    parser.add_argument("--root", type=Path, default=ROOT, help="the folder of the book")
    options = parser.parse_args()
    root = options.root.resolve()
    output = (options.output or root / OUTPUT).absolute()
    return endings.run(lambda: make(root, output, options.pip_args))


def make(root: Path, output: Path, pip_args: str) -> None:
    """Pack the course at `root` into `output`, and say what is in it."""
    say = print if sys.stdout.isatty() or os.environ.get("CI") else lambda _: None
    try:
        options = shlex.split(pip_args)
    except ValueError as error:
        raise BookError(f"--pip-args cannot be read ({in_a_line(error)}): {pip_args}") from error
    record = pack(root, output, options, say)
    total = sum(record["bytes"].values())
    each = ", ".join(f"{name} {count / MB:,.0f} MB" for name, count in record["bytes"].items())
    print(f"{output}: {total / MB:,.0f} MB in {record['seconds']} s ({each})")


if __name__ == "__main__":
    sys.exit(main())
