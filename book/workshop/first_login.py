"""Gives a learner a copy of the material, then becomes the learner's server.

`python first_login.py MATERIAL COMMAND...`: runs as the learner, so that all files are theirs. A
file that a learner has is never written over; what the material has more than last time is added.
"""

import os
import shutil
import sys
from pathlib import Path

COURSE = "inside-generate"


def bring(material: Path, home: Path) -> int:
    """Copy what is missing below `home`, whole files only; return how many there were."""
    brought = 0
    for source in sorted(path for path in material.rglob("*") if path.is_file()):
        place = source.relative_to(material)
        target = home / COURSE / place
        hidden = any(part.startswith(".") for part in place.parts)
        if hidden or os.path.lexists(target):  # a link that leads nowhere is the learner's as well
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.partial")
        partial.unlink(missing_ok=True)  # of a copy that was cut off
        shutil.copyfile(source, partial)  # the contents; the material itself is read-only
        partial.replace(target)
        brought += 1
    return brought


def main() -> None:
    """Bring the material, then run the command that follows it in this process's place."""
    if len(sys.argv) < 3:
        sys.exit("usage: python first_login.py MATERIAL COMMAND...")
    material, command = Path(sys.argv[1]), sys.argv[2:]
    try:
        if not material.is_dir():
            raise FileNotFoundError(f"no folder {material}")
        bring(material, Path.home())
    except OSError as error:  # a lesson without its files can be mended; one without a server not
        print(f"warning: the material was not copied: {error}", file=sys.stderr)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
