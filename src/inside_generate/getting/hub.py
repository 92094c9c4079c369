"""The reference from the model hub: is it cached, can the hub be reached, get it.

What it knows: how to ask the hub client for one file of one commit, and how to go on with a
download where it stopped. What it leaves to others: when to ask, and what then (`fetch`).

The client's own ``snapshot_download`` deletes what it has when it is interrupted (2.4.0 does),
so each file is asked for with the client's parts: the address, the HEAD request, the GET.
No token is sent: the model is public.
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

from huggingface_hub import (
    constants,
    get_hf_file_metadata,
    hf_hub_url,
    try_to_load_from_cache,
)
from huggingface_hub.file_download import HfFileMetadata, http_get
from huggingface_hub.utils import build_hf_headers
from huggingface_hub.utils import logging as hub_logging

from inside_generate.checkpoints import WEIGHTS, Checkpoint, fetch_command
from inside_generate.errors import InsideGenerateError, UnavailableError, in_a_line
from inside_generate.getting.integrity import sha256

PROBE_SECONDS = 3.0


def find_in_hub_cache(checkpoint: Checkpoint) -> Path | None:
    """Return the folder of the hub's own cache that holds the pinned commit whole, or None.

    The weights' sum is worked out once and remembered: other weights do not count.
    """
    found = {name: _cached(checkpoint, name) for name in checkpoint.files}
    weights = found.get(WEIGHTS)
    if weights is None or None in found.values():
        return None
    whole = weights.stat().st_size == checkpoint.size_bytes and sha256(weights) == checkpoint.sha256
    return weights.parent if whole else None


def _cached(checkpoint: Checkpoint, name: str) -> Path | None:
    path = try_to_load_from_cache(
        checkpoint.model_id, name, cache_dir=constants.HF_HUB_CACHE, revision=checkpoint.revision
    )
    return Path(path) if isinstance(path, str) else None  # there is a third answer: "no such file"


def why_unreachable(checkpoint: Checkpoint) -> str | None:
    """Ask the hub once for the smallest file's head; return why it cannot be had, or None.

    Takes 3 seconds at most. It is asked in a thread because looking up a host's address knows
    no time limit of its own.
    """
    if constants.is_offline_mode():
        return "HF_HUB_OFFLINE is set"
    answers: list[str | None] = []

    def ask() -> None:
        try:
            _ask_for(checkpoint, checkpoint.files[0], PROBE_SECONDS)
            answers.append(None)
        except Exception as error:  # whatever it is, it is the answer
            answers.append(f"{constants.ENDPOINT} cannot be used ({in_a_line(error)})")

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PROBE_SECONDS)
    return answers[0] if answers else f"{constants.ENDPOINT} gave no answer in {PROBE_SECONDS:g} s"


def download(checkpoint: Checkpoint, folder: Path) -> None:
    """Fill ``folder`` with the files of the pinned commit, each checked; go on where one stopped.

    Raises ``UnavailableError`` where the hub fails, ``OSError`` where the disk does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    level = hub_logging.get_verbosity()
    hub_logging.set_verbosity_error()  # it warns of each retry; what fails in the end is raised
    try:
        for name in checkpoint.files:
            if not (folder / name).is_file():
                _download_file(checkpoint, name, folder)
    finally:
        hub_logging.set_verbosity(level)


def _download_file(checkpoint: Checkpoint, name: str, folder: Path) -> None:
    """Get one file under a name of its own; give it its name when it is whole and right."""
    partial = folder.with_name(f"{name}.part")
    try:
        about = _ask_for(checkpoint, name, constants.HF_HUB_ETAG_TIMEOUT)
        _get(about, partial, name)
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's fault, not the hub's
        raise UnavailableError(
            f"{constants.ENDPOINT} broke off at {name} ({in_a_line(error)})",
            f"type `{fetch_command(checkpoint.name)}` to go on from there",
        ) from error
    _check(checkpoint, name, partial, about.etag or "")
    partial.rename(folder / name)


def _ask_for(checkpoint: Checkpoint, name: str, seconds: float) -> HfFileMetadata:
    url = hf_hub_url(checkpoint.model_id, name, revision=checkpoint.revision)
    return get_hf_file_metadata(url, token=False, timeout=seconds)


def _get(about: HfFileMetadata, partial: Path, name: str) -> None:
    """Append what is still missing. The client shows a bar where stderr is a terminal."""
    with partial.open("ab") as file:
        if about.size is not None and file.tell() > about.size:
            file.seek(0)
            file.truncate()
        http_get(
            about.location,
            file,
            resume_size=file.tell(),
            headers=build_hf_headers(token=False),
            expected_size=about.size,
            displayed_filename=name,
        )


def _check(checkpoint: Checkpoint, name: str, path: Path, etag: str) -> None:
    """Delete the file and raise unless its sum is right.

    The weights' sum is known beforehand. Of a small file the hub tells git's own: the SHA-1 of
    a short head and the bytes.
    """
    if name == WEIGHTS:
        expected, found = checkpoint.sha256, sha256(path)
    elif len(etag) == 40:
        content = path.read_bytes()
        head = b"blob %d\0" % len(content)
        expected, found = etag, hashlib.sha1(head + content, usedforsecurity=False).hexdigest()
    else:
        return
    if found != expected:
        path.unlink()
        raise InsideGenerateError(
            f"{name} came with the sum {found[:12]}… instead of {expected[:12]}… and was deleted; "
            f"type `{fetch_command(checkpoint.name)}` to get it again"
        )
