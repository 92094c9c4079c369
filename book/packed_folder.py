"""A packed folder: the sums of its files, and when the next one may take its place.

It may be replaced where it was packed by `offline.py`, and nobody has worked in it.
"""

import hashlib
import os
from pathlib import Path

from pages import BookError

RECORD = "stick.json"
SUMS = "SHA256SUMS"


def sums(folder: Path) -> str:
    """One line for each file, as `sha256sum` writes and reads them."""
    lines = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        lines.append(f"{sha256(path)}  {path.relative_to(folder).as_posix()}\n")
    return "".join(lines)


def sha256(path: Path) -> str:
    """The sum of a file of any size."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_replaceable(output: Path) -> None:
    """Raise where `output` holds something that was not packed here: nobody's files are deleted."""
    if not os.path.lexists(output):
        return
    if not (output / RECORD).is_file():
        raise BookError(f"{output} is there and was not packed by this; name another folder")
    if work := somebodys(output):
        raise BookError(f"{output} holds work of somebody's ({work}); name another folder")


def somebodys(folder: Path) -> str | None:
    """A file that came into a packed folder later, or a notebook changed there; None without."""
    lines = (folder / SUMS).read_text("utf-8").splitlines() if (folder / SUMS).is_file() else []
    packed = {place: digest for digest, _, place in (line.partition("  ") for line in lines)}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        place = path.relative_to(folder).as_posix()
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if place == SUMS or hidden:  # what systems and JupyterLab leave behind
            continue
        changed = path.suffix == ".ipynb" and packed.get(place) != sha256(path)
        if place not in packed or changed:
            return place
    return None
