"""The one folder on disk that belongs to the course: models, and what was measured once.

What it knows: where that folder is, what lies where in it, and how small facts are kept in
its ``settings.json``. What it leaves to others: what those facts mean (`integrity` keeps
hashes there, `device` the faster dtype).
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from inside_generate.errors import InsideGenerateError

_kept_in_memory: dict[tuple[str, str, str], Any] = {}


def home() -> Path:
    """Return ``INSIDE_GENERATE_HOME``, or the folder for caches that this system gives a user."""
    chosen = os.environ.get("INSIDE_GENERATE_HOME")
    if not chosen:
        import platformdirs  # a machine that is told its folder can do without

        return platformdirs.user_cache_path("inside-generate")
    folder = expand_user(chosen)
    if not folder.is_absolute():
        # A notebook's kernel starts in the notebook's folder, a command where it was typed.
        raise InsideGenerateError(
            f"INSIDE_GENERATE_HOME is {chosen!r}; set it to an absolute path, such as "
            f"{Path.cwd() / chosen}"
        )
    return folder


def expand_user(path: str) -> Path:
    """Return ``path`` with ``~`` put in full, or raise where it names nobody's folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InsideGenerateError(
            f"{path!r} names no user of this system; write the whole path"
        ) from error


def model_directory(name: str) -> Path:
    """Return where the finished model ``name`` lies. Nothing half-written is ever there."""
    return home() / "models" / name


def download_directory(name: str) -> Path:
    """Return where the unfinished parts of ``name`` wait for the next attempt."""
    return home() / "downloads" / name


def settings_file() -> Path:
    """Return the file that keeps what was measured or checked once on this machine."""
    return home() / "settings.json"


def written(path: Path) -> str:
    """Return a path as people write it, and a page may show it: the user's own folder as ``~``."""
    with contextlib.suppress(ValueError, RuntimeError):  # it lies elsewhere, or there is none
        return f"~/{path.relative_to(Path.home()).as_posix()}"
    return str(path)


def recall(section: str, key: str) -> Any:
    """Return what ``remember`` kept under ``key``, or ``None``."""
    in_memory = _kept_in_memory.get((str(home()), section, key))
    kept = _read_settings().get(section)
    on_disk = kept.get(key) if isinstance(kept, dict) else None
    return in_memory if in_memory is not None else on_disk


def remember(section: str, key: str, value: Any) -> bool:
    """Keep ``value`` for later runs; return whether that worked.

    Where the folder cannot be written, it is kept for this process only: the fact then costs
    a new measurement next time, which is no reason to fail.
    """
    _kept_in_memory[str(home()), section, key] = value
    settings = _read_settings()
    kept = settings.get(section)
    settings[section] = {**(kept if isinstance(kept, dict) else {}), key: value}
    partial = settings_file().with_name(f".settings.{os.getpid()}.partial")
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        partial.replace(settings_file())
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()
        return False
    return True


def _read_settings() -> dict[str, Any]:
    """Return the kept facts; a file that is missing or not readable as JSON counts as empty."""
    try:
        settings = json.loads(settings_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return settings if isinstance(settings, dict) else {}
