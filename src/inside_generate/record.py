"""The JSON file of a run: what happened, and what it happened on.

Its form is fixed by ``data/run.schema.json``; ``schema_version`` counts that form.
"""

from __future__ import annotations

import contextlib
import json
import os
from importlib import resources
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from inside_generate.environment import describe
from inside_generate.errors import InsideGenerateError
from inside_generate.trace import Trace

SCHEMA_VERSION = 1
OTHER_FILE = "choose another file with --output"


def run_record(trace: Trace, model: PreTrainedModel) -> dict[str, Any]:
    """Return one run as the JSON object that ``run`` writes."""
    return {"schema_version": SCHEMA_VERSION, **describe(model), **trace.to_dict()}


def run_schema() -> dict[str, Any]:
    """Return the JSON schema of a run's file."""
    text = resources.files("inside_generate").joinpath("data", "run.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def write_json(record: dict[str, Any], path: str | Path) -> Path:
    """Write ``record`` readable by people: folders made, indented by 2, UTF-8, final newline.

    The file appears whole or not at all. Numbers that JSON does not know (NaN) are refused.
    """
    target = check_target(path)
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    data = text.encode("utf-8")
    partial = target.with_name(f".{os.getpid()}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(data)
        partial.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise InsideGenerateError(
            f"cannot write {str(path)!r} ({error.strerror}); {OTHER_FILE}"
        ) from error
    return target


def check_target(path: str | Path) -> Path:
    """Return where ``write_json`` will write, links followed, or raise where it must not.

    A file is replaced as a whole, so what is not a plain file (a device, a pipe, a folder) and
    what is write-protected is left alone.
    """
    try:
        target = Path(path).resolve()
        is_file, exists = target.is_file(), target.exists()
        loop = target.is_symlink()  # a link that was followed and is one still
        protected = is_file and not target.stat().st_mode & 0o222
        folder = next(path for path in (*target.parents, target) if path.exists())
    except (OSError, RuntimeError, ValueError) as error:
        raise InsideGenerateError(f"cannot write {str(path)!r} ({error}); {OTHER_FILE}") from error
    if not Path(path).name or loop or (exists and not is_file):
        raise InsideGenerateError(f"cannot write {str(path)!r}: it is no plain file; {OTHER_FILE}")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InsideGenerateError(
            f"cannot write {str(path)!r}: {str(folder)!r} is no folder that can be written into; "
            f"{OTHER_FILE}"
        )
    if protected:
        raise InsideGenerateError(f"{str(path)!r} is write-protected; {OTHER_FILE}")
    return target
