"""Runs that are recorded while the book is built, for the pages that play them.

A page asks for recordings by name in a ``{player}`` directive; their prompts stand here. Each is
made by `python -m inside_generate run` in a process of its own, which gives the memory back, and
kept in `_build/recorded` for as long as nothing that it depends on has changed, by the same rule
as a notebook's run. What the pages show of them is laid out beside their sources.

What imports torch is imported where it is used, as in `build.py`.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jsonschema

from inside_generate.player_page import script
from notebook_runs import sha256
from pages import SOURCE, BookError

RECORDED = Path("_build/recorded")
PLAYERS = "players"  # below the source of the pages: what their players show
PROMPTS = {
    "lunch": "What's for lunch today?",
    "sky": "Why is the sky blue?",
    "chopsticks": "今天午饭用筷子🥢吃什么?",
}
# The second one is to be cut off, whatever the machine: near ties give answers of other lengths.
LIMITS = {"lunch": 64, "sky": 24, "chopsticks": 64}
ASKED = re.compile(r"^```\{player\}[ \t]*(.*)$", flags=re.MULTILINE)


def wanted(root: Path, documents: Iterable[Path]) -> list[str]:
    """The recordings that the Markdown pages ask for, each once. BookError for an unknown one."""
    found: list[str] = []
    for page in (path for path in documents if path.suffix == ".md"):
        for names in ASKED.findall((root / page).read_text("utf-8")):
            found += names.split()
    if unknown := sorted(set(found) - set(PROMPTS)):
        raise BookError(f"no recording is called {unknown[0]}; there are {', '.join(PROMPTS)}")
    return list(dict.fromkeys(found))


def record_stale(
    root: Path,
    names: Iterable[str],
    around: dict[str, Any],
    say: Callable[[str], None] = lambda _: None,
) -> int:
    """Make those recordings that no longer count; return how many. BookError if one fails."""
    stale = [name for name in names if not is_done(root, name, key_of(name, around))]
    if stale:
        say(f"Recording {len(stale)} runs for the player, with times")
    for name in stale:
        (root / RECORDED).mkdir(parents=True, exist_ok=True)
        key_path(root, name).unlink(missing_ok=True)
        target = root / RECORDED / f"{name}.json"
        run(PROMPTS[name], LIMITS[name], target)
        check(target)
        stamp = {"key": key_of(name, around), "sha256": sha256(target.read_bytes())}
        key_path(root, name).write_text(json.dumps(stamp), encoding="utf-8")
    return len(stale)


def key_of(name: str, around: dict[str, Any]) -> str:
    """What decides whether an earlier recording still counts, as one SHA-256."""
    asked = json.dumps([PROMPTS[name], LIMITS[name], around], sort_keys=True)
    return sha256(asked.encode())


def key_path(root: Path, name: str) -> Path:
    """Where the stamp of a recording lies; written last, so that without it nothing counts."""
    return root / RECORDED / f"{name}.key"


def is_done(root: Path, name: str, key: str) -> bool:
    """Whether the recording is the complete, untouched result of a run with this key."""
    try:
        stamp = json.loads(key_path(root, name).read_text("utf-8"))
        found = sha256((root / RECORDED / f"{name}.json").read_bytes())
        return bool(stamp == {"key": key, "sha256": found})
    except (OSError, ValueError):
        return False


def run(prompt: str, limit: int, target: Path) -> None:
    """Record one prompt with the command that readers have. BookError in one line if it fails."""
    command = [sys.executable, "-m", "inside_generate", "run", "--prompt", prompt]
    command += ["--max-new-tokens", str(limit), "--output", str(target)]
    around = os.environ | {"PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        command, env=around, capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise BookError(f"{prompt!r} could not be recorded: {said[-1].removeprefix('error: ')}")


def check(target: Path) -> None:
    """Refuse a file that is not what a run writes."""
    from inside_generate.record import run_schema

    try:
        jsonschema.validate(json.loads(target.read_text("utf-8")), run_schema())
    except (OSError, ValueError, jsonschema.ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise BookError(f"{target.name}: not a run as the schema describes it: {reason}") from None


def publish(root: Path, names: Iterable[str]) -> None:
    """Lay out what players show, and their script, beside the sources of the pages."""
    source = root / SOURCE
    (source / "book/_static").mkdir(parents=True, exist_ok=True)
    (source / "book/_static/player.js").write_text(script(), encoding="utf-8")
    (source / PLAYERS).mkdir(exist_ok=True)
    for name in names:
        path = root / RECORDED / f"{name}.json"
        if not path.is_file():
            raise BookError(f"{path.name} is not recorded yet; type `make book`")
        (source / PLAYERS / path.name).write_text(laid_out(path), encoding="utf-8")


def laid_out(path: Path) -> str:
    """What the player shows of a recording, as JSON."""
    from inside_generate.player import player_data
    from inside_generate.trace import Trace

    record = json.loads(path.read_text("utf-8"))
    shown = player_data(Trace.from_dict(record), record)
    return json.dumps(shown, ensure_ascii=False, allow_nan=False)
