"""``python -m inside_generate engines``: which there are, and ``engines install NAME``."""

from __future__ import annotations

from collections.abc import Sequence

from inside_generate.engines.install import Say, install, listing
from inside_generate.engines.kinds import KINDS
from inside_generate.errors import InsideGenerateError, shown


def run(words: Sequence[str], say: Say) -> int:
    """List the engines, or install the one that is named; return the exit code."""
    if not words:
        for line in listing():
            say(line)
        return 0
    if len(words) != 2 or words[0] != "install":
        raise InsideGenerateError(
            f"engines takes nothing, or `install` and {' or '.join(KINDS)}, not "
            f"{shown(' '.join(words))}"
        )
    say(f"ready: {install(words[1], say)}")
    return 0
