"""Finding a model on this machine's disk: which directory a name stands for.

It imports none of the library's models, so that a program that only asks where a model is does
not wait for them. What it leaves to others: getting models (`fetch`), their facts (`checkpoints`),
what a directory must hold (`layout`, `integrity`), loading (`models`).
"""

from __future__ import annotations

import os
from pathlib import Path

from inside_generate.checkpoints import CHECKPOINTS, Checkpoint, fetch_command
from inside_generate.errors import InsideGenerateError, shown
from inside_generate.getting.hub import find_in_hub_cache
from inside_generate.getting.integrity import damage
from inside_generate.getting.layout import check_layout
from inside_generate.home import expand_user, home, model_directory


def find(model: str | Path = "auto") -> Path:
    """Return the directory of a whole model on this disk.

    ``model`` is a name from ``CHECKPOINTS``, a path, or "auto": what ``INSIDE_GENERATE_MODEL``
    says, else the reference, else the stand-in, else the small one. A name wins over a folder
    of that name; write ``./name`` for the folder.
    """
    wanted = wanted_model(model)
    if not wanted:  # as a path it would be the folder in which one happens to be
        raise InsideGenerateError(f"no model is named: choose auto, {', '.join(CHECKPOINTS)}")
    if wanted == "auto":
        for checkpoint in CHECKPOINTS.values():
            if directory := on_disk(checkpoint):
                return directory
        raise InsideGenerateError(f"there is no model in {home()} yet; type `{fetch_command()}`")
    if wanted in CHECKPOINTS:
        return _find_known(CHECKPOINTS[wanted])
    return _find_path(expand_user(wanted))


def wanted_model(model: str | Path) -> str:
    """Return the name or path that counts: the argument, else the environment's, else "auto"."""
    return os.environ.get("INSIDE_GENERATE_MODEL") or "auto" if model == "auto" else str(model)


def _find_known(checkpoint: Checkpoint) -> Path:
    directory = on_disk(checkpoint)
    if directory is None:
        raise InsideGenerateError(
            f"{checkpoint.name} is not in {home()}; type `{fetch_command(checkpoint.name)}`"
        )
    return directory


def _find_path(directory: Path) -> Path:
    try:
        found = directory.is_dir()
    except OSError as error:  # a name that is too long, or a folder that may not be looked into
        raise InsideGenerateError(
            f"model {shown(str(directory))} cannot be looked for: {error.strerror}; name another"
        ) from error
    if not found:
        raise InsideGenerateError(
            f"unknown model {str(directory)!r}: neither a directory nor one of "
            f"auto, {', '.join(CHECKPOINTS)}"
        )
    check_layout(directory)
    return directory.resolve()


def on_disk(checkpoint: Checkpoint) -> Path | None:
    """Return the whole directory of a known model, fetched or in the hub's own cache, or None.

    One that was fetched and has changed since is an error: nobody wants other numbers unawares.
    """
    directory = model_directory(checkpoint.name)
    if directory.exists():
        if wrong := damage(directory):
            raise InsideGenerateError(
                f"{directory} is damaged: {wrong}; type `{fetch_command(checkpoint.name)}`"
            )
        return directory
    return find_in_hub_cache(checkpoint) if checkpoint.source == "hub" else None
