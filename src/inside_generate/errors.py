"""The exceptions that are meant for a person's eyes.

What it knows: that their message is one line which says what was wrong, with the value, and
what to type or change. The command line prints it as ``error: …`` and ends with exit code 2.
"""

from __future__ import annotations


class InsideGenerateError(Exception):
    """A mistake or a mishap that the reader can mend: the message says how."""

    def _render_traceback_(self) -> list[str]:
        """Let a notebook show the one line as well; Jupyter asks for it by this name."""
        return [f"error: {self}"]


class UnavailableError(InsideGenerateError):
    """A model cannot be had from its source just now; another model may still be had."""

    def __init__(self, reason: str, remedy: str) -> None:
        """Keep the reason by itself for those who have a remedy of their own."""
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason


def in_a_line(error: Exception) -> str:
    """Return another library's message without its line breaks, and not all of a long one."""
    return (shortened(str(error)) or type(error).__name__).rstrip(".")


def shortened(text: str) -> str:
    """Return another program's words in one line, and not all of many."""
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:300]}…"


def shown(value: object) -> str:
    """Return a value as a message names it: in one line, and not all of a long one."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:100]}…"
