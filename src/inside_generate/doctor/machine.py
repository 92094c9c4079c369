"""What the machine has: processor, memory, disk, and the programs that only some parts need.

What it knows: where a system tells these things. What it leaves to others: which model is to run
(``checkup_models``).
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

from inside_generate.doctor.checkup import FAIL, INFO, OK, WARN, Check, setting

GIB = 1024**3
BESIDE_WEIGHTS = GIB  # the libraries (half of it), the KV cache, logits and working space

# Of each optional program: what it is for, its commands, what to type on Debian and on macOS.
XCODE = "xcode-select --install"
COMPILED = "compiled decoding (the rungs `compiled` and `int8` of bench)"
TOOLS = {
    "make": ("`make book` and `make test`", ("make",), "sudo apt install make", XCODE),
    "git": ("the commit noted in a run's file", ("git",), "sudo apt install git", XCODE),
    "a C++ compiler": (COMPILED, ("c++", "g++", "clang++"), "sudo apt install g++", XCODE),
    "npm": ("a classroom server", ("npm",), "sudo apt install npm", "brew install node"),
    "Chromium": (
        "the page checks in a browser",
        ("chromium", "chromium-browser", "google-chrome"),
        "sudo apt install chromium",
        "brew install --cask chromium",
    ),
}


def system() -> Check:
    """Which system is this, and how large is the machine?"""
    name = f"{platform.system()} {platform.machine()}"
    finding = f"{platform.system()} {platform.release()} ({platform.machine()})"
    return Check("machine", OK, f"{finding}, {os.cpu_count()} logical processors", None, name)


def device() -> list[Check]:
    """Which processor would run the model, and is there a GPU that torch cannot see?"""
    import torch

    from inside_generate import device as devices
    from inside_generate.errors import InsideGenerateError

    try:
        chosen = devices.choose_device()
    except InsideGenerateError as error:
        return [Check("device", FAIL, str(error), setting("INSIDE_GENERATE_DEVICE"))]
    if chosen.type == "cuda":
        name = f"{chosen} ({torch.cuda.get_device_name(chosen)})"
        free, total = torch.cuda.mem_get_info(chosen)
        memory = f"{free / GIB:.1f} of {total / GIB:.1f} GiB of its memory free"
        return [Check("device", OK, f"{name}, {memory}", None, name)]
    threads = torch.get_num_threads()
    name = f"{chosen.type} ({devices.cpu_name()}, {threads} thread{'s' * (threads > 1)})"
    checks = [Check("device", OK, name, None, name)]
    if unseen := devices.gpu_torch_cannot_see():
        checks.append(Check("GPU", WARN, unseen))
    elif chosen.type == "cpu" and torch.backends.mps.is_available():
        asked = "run --device mps uses it; the course was not tested on it"
        checks.append(Check("GPU", INFO, f"there is an Apple GPU: {asked}"))
    return checks


def memory(free: int | None, weights_bytes: int | None, most_bytes: int = 0) -> Check:
    """Is there room for the weights, as they lie in memory, and for what comes beside them?

    ``most_bytes`` is what the weights take in a lesson that asks for a larger number format.
    """
    if free is None:
        return Check("memory", INFO, "this system does not tell how much is free")
    finding = f"{free / GIB:.1f} GiB free"
    if weights_bytes is None:
        return Check("memory", OK, finding)
    needed = max(weights_bytes, most_bytes) + BESIDE_WEIGHTS
    finding += f", about {needed / GIB:.1f} GiB needed"
    if free >= needed:
        return Check("memory", OK, finding)
    state = WARN if free >= weights_bytes else FAIL
    return Check("memory", state, f"{finding}: close other programs, or take a smaller model")


def gpu_free_bytes(name: str) -> int:
    """Return what is free of the memory of ``cuda`` or, say, ``cuda:1``."""
    import torch

    return int(torch.cuda.mem_get_info(torch.device(name))[0])


def available_bytes() -> int | None:
    """Return what a new program may use, within a container's limit; ``None`` where unknown."""
    free = _free_on_machine()
    limit = _free_in_container(Path("/sys/fs/cgroup"))
    known = [value for value in (free, limit) if value is not None]
    return min(known, default=None)


def _free_on_machine() -> int | None:
    try:
        import psutil

        return int(psutil.virtual_memory().available)
    except ImportError:
        pass
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        (kib,) = [line.split()[1] for line in lines if line.startswith("MemAvailable")]
        return int(kib) * 1024
    except (OSError, ValueError):  # not Linux
        return None


def _free_in_container(folder: Path) -> int | None:
    """Return what is left of a container's limit; files kept in memory do not count as used."""
    try:
        limit = int((folder / "memory.max").read_text(encoding="ascii"))
        used = int((folder / "memory.current").read_text(encoding="ascii"))
        lines = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        counts = dict(line.split() for line in lines)
        return limit - used + int(counts["inactive_file"])
    except (OSError, ValueError, KeyError):  # no container, or "max": no limit
        return None


def disk(folder: Path, needed_bytes: int) -> Check:
    """Is there room on the disk of ``folder`` for what is still to be fetched?"""
    free = shutil.disk_usage(_nearest(folder)).free
    finding = f"{free / GIB:.1f} GiB free at {folder}"
    if free >= needed_bytes:
        return Check("disk", OK, finding)
    finding += f", and fetching a model needs {needed_bytes / GIB:.1f}"
    return Check("disk", FAIL, finding, setting("INSIDE_GENERATE_HOME", "/another/disk"))


def writable(folder: Path, model_is_there: bool) -> Check:
    """Can ``folder`` be written? A model that is there already can be read all the same."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    try:  # a file in a folder's place cannot be written into either
        with tempfile.TemporaryFile(dir=nearest):
            return Check("home", OK, f"{folder} can be written")
    except OSError as error:
        finding = f"{nearest} cannot be written ({error.strerror})"
    if model_is_there:
        return Check("home", INFO, f"{finding}; the model can be read all the same")
    return Check("home", FAIL, finding, setting("INSIDE_GENERATE_HOME", "/a/folder/of/yours"))


def tools() -> list[Check]:
    """Which optional programs are here, and what is each missing one for?"""
    found = [name for name in TOOLS if _has(name)]
    checks = [Check("programs", OK, f"found {', '.join(found)}")] if found else []
    for name, (purpose, _, debian, macos) in TOOLS.items():
        if name not in found:
            remedy = {"linux": debian, "darwin": macos}.get(sys.platform)
            finding = f"{name} is missing; it is for {purpose}"
            checks.append(Check("programs", INFO, finding, remedy, None, name))
    return [*checks, *headers(Path(sysconfig.get_path("include")))]


def headers(folder: Path) -> list[Check]:
    """Are Python's headers in ``folder``? Systems that split their packages leave them out."""
    if (folder / "Python.h").is_file():
        return []
    package = f"sudo apt install python{sys.version_info.major}.{sys.version_info.minor}-dev"
    remedy = package if sys.platform == "linux" else None
    finding = f"Python's headers are missing; they are for {COMPILED}"
    return [Check("programs", INFO, finding, remedy, None, "Python's headers")]


def _has(name: str) -> bool:
    if name == "a C++ compiler":  # torch takes this one and looks for no other
        usual = {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")
        return shutil.which(os.environ.get("CXX") or usual) is not None
    if any(shutil.which(command) for command in TOOLS[name][1]):
        return True
    if name != "Chromium":
        return False
    return bool(os.environ.get("CHROMIUM")) or any(
        any(folder.glob("chromium*")) for folder in _browser_folders()
    )


def _browser_folders() -> list[Path]:
    """Return where Playwright keeps the browsers that it has downloaded."""
    chosen = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    usual = [Path("~/.cache/ms-playwright"), Path("~/Library/Caches/ms-playwright")]
    return [Path(chosen)] if chosen else [folder.expanduser() for folder in usual]


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that is there."""
    return next(path for path in (folder, *folder.parents) if path.is_dir())
