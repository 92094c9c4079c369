"""The JSON in a file of anybody's making, or one line that says why there is none to be read.

What it knows: what may be wrong with a file before its content matters. What it leaves to others:
what the JSON has to hold (``run_file``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inside_generate.comparing.run_fields import shortened
from inside_generate.errors import InsideGenerateError

MOST_BYTES = 256 * 1024**2  # a thousand times a run's; read, JSON takes up to 25 times its size
CUT_OFF = {"unexpected end of data", "truncated data"}  # Python's words, in UTF-8 and in UTF-16


def read_json(path: str | Path, name: str) -> Any:
    """Return what the JSON file ``path`` holds; ``name`` is what messages call it."""
    return _parse(_read(Path(path), name), name)


def _read(path: Path, name: str) -> bytes:
    try:
        if path.is_dir():
            raise InsideGenerateError(f"{name} is a directory; give the JSON file that is in it")
        if not path.exists():
            raise InsideGenerateError(
                f"{name}: no such file; `python -m inside_generate run --output FILE` writes one"
            )
        if not path.is_file():  # a pipe, for one, might never end
            raise InsideGenerateError(f"{name} is not a regular file; give the JSON file of a run")
        if (size := path.stat().st_size) > MOST_BYTES:
            raise InsideGenerateError(
                f"{name} has {size:,} bytes, and the file of a run {MOST_BYTES:,} at most; "
                "leave out what is not compared"
            )
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InsideGenerateError(f"{name} cannot be read ({reason})") from error


def _parse(content: bytes, name: str) -> Any:
    if not content.strip():
        raise InsideGenerateError(f"{name} is empty; write the run again")
    try:
        return json.loads(content, object_pairs_hook=_each_key_once(name))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        wrong = "cut off in the middle" if _cut_off(error) else f"not JSON: {error.msg}"
        raise InsideGenerateError(f"{name} is {wrong} ({place}); write the run again") from error
    except UnicodeDecodeError as error:
        wrong = "not JSON: it is not text in UTF-8"
        if error.reason in CUT_OFF and error.end >= len(error.object):
            wrong = "cut off in the middle of a character; write the run again"
        raise InsideGenerateError(f"{name} is {wrong}") from error
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, 100,000 brackets
        reason = str(error).split(";")[0]
        raise InsideGenerateError(f"{name} holds JSON that cannot be read: {reason}") from error


def _each_key_once(name: str) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """Return a maker of objects. JSON leaves open which of two equal keys counts: none does."""

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
            raise InsideGenerateError(
                f"{name}: the key {shortened(twice)} stands twice in one object"
            )
        return found

    return made


def _cut_off(error: json.JSONDecodeError) -> bool:
    """Whether the text ends before the object or list that it begins."""
    text = error.doc.strip("\ufeff \t\r\n")
    at_the_end = not error.doc[error.pos :].strip()
    return text.startswith(("{", "[")) and (at_the_end or not text.endswith(("}", "]")))
