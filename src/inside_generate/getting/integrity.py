"""Is this model directory whole, and is it what it says it is?

What it knows: sha256 sums (worked out once for each file and remembered), the manifest that a
fetched directory carries, and how the length of a safetensors file follows from its head.
What it leaves to others: which sums are the right ones (`checkpoints`).
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from inside_generate.errors import InsideGenerateError, shown
from inside_generate.home import recall, remember

MANIFEST = "inside_generate.json"


def sha256(path: Path) -> str:
    """Return the sum of a file's bytes, in hex; worked out again only after a change."""
    kept, now = recall("sha256", str(path.resolve())), path.stat()
    if isinstance(kept, list) and kept[:2] == [now.st_size, now.st_mtime_ns] and len(kept) == 3:
        return str(kept[2])
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    remember_sha256(path, digest)
    return digest


def remember_sha256(path: Path, digest: str) -> None:
    """Keep a known sum for as long as the file keeps its path, size and time of change."""
    now = path.stat()
    remember("sha256", str(path.resolve()), [now.st_size, now.st_mtime_ns, digest])


def write_manifest(directory: Path, name: str, model_id: str, revision: str) -> None:
    """Record what the finished ``directory`` is, and the size and sum of each file in it."""
    files = {
        path.name: {"size": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(directory.iterdir())
        if path.is_file() and path.name != MANIFEST
    }
    record = {"name": name, "model_id": model_id, "revision": revision, "files": files}
    text = json.dumps(record, indent=2) + "\n"
    (directory / MANIFEST).write_text(text, encoding="utf-8")


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """Return the record of a fetched directory; ``None`` for any other directory."""
    try:
        record = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        return record if {"name", "model_id", "revision", "files"} <= record.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def damage(directory: Path) -> str | None:
    """Return what is wrong with a fetched directory, in words; ``None`` if nothing is."""
    manifest = read_manifest(directory)
    if manifest is None:
        return f"{MANIFEST} is missing or not readable"
    for name, recorded in manifest["files"].items():
        path = directory / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != recorded["size"]:
            return f"{name} has {path.stat().st_size:,} bytes instead of {recorded['size']:,}"
        if sha256(path) != recorded["sha256"]:
            return f"{name} has another sha256 than when it was fetched"
    return None


def check_safetensors(path: Path) -> None:
    """Raise unless the file is as long as its own head says, and its weights are floats.

    The format: 8 bytes with the length of a JSON head, the head (which gives each tensor's
    place), then the numbers. A download that broke off ends too early. Weights in whole numbers
    need a scale to mean anything; the library would take them as they stand.
    """
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            (head_length,) = struct.unpack("<Q", file.read(8))
            head = json.loads(file.read(min(head_length, size)))
        entries = {name: entry for name, entry in head.items() if name != "__metadata__"}
        whole = 8 + head_length + max((e["data_offsets"][1] for e in entries.values()), default=0)
        kinds = {name: str(entry["dtype"]) for name, entry in entries.items()}
    except (
        struct.error,
        ValueError,
        LookupError,
        AttributeError,
        TypeError,
        RecursionError,
    ) as error:
        raise InsideGenerateError(
            f"{path} is not a whole safetensors file; download it again"
        ) from error
    if size != whole:
        raise InsideGenerateError(
            f"{path} has {size:,} bytes where its head announces {whole:,}; download it again"
        )
    for name, kind in kinds.items():
        if name.endswith("weight") and not kind.startswith(("F", "BF")):
            raise InsideGenerateError(
                f"{path} holds {name} in {shown(kind)}, no floating-point numbers; choose a model "
                "that is not quantised"
            )
