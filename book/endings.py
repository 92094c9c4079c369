"""How a program of the book ends: what went wrong in one line, an exit status, nothing half-done.

Shared by the programs that readers and teachers type; what they do is in each of them.
"""

import sys
from collections.abc import Callable

from inside_generate.errors import InsideGenerateError
from inside_generate.interrupts import requests_to_end_as_interrupts
from pages import BookError


def run(work: Callable[[], None]) -> int:
    """Do the work and return the exit status: 0, 1 where it failed, 130 where it was stopped.

    A request to end is an interrupt for the work, so that it can remove what is half-made.
    """
    try:
        with requests_to_end_as_interrupts():
            work()
        return 0
    except (BookError, InsideGenerateError) as error:
        return fail(str(error))
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return fail(f"{error.strerror or error}{where}")
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def fail(words: str) -> int:
    """Say what was wrong and return the exit status for it."""
    print(f"error: {words}", file=sys.stderr)
    return 1
