"""A folder that is made anew: the new one takes the old one's place, or the old one stays."""

import shutil
from pathlib import Path


def put_in_place(new: Path, folder: Path) -> None:
    """Let `new` become `folder`; what was there goes when that is done, and stays if it fails."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    try:
        new.replace(folder)
    except BaseException:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
