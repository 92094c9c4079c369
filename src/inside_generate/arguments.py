"""Arguments of a command line: what is wrong with one is said in one line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

from inside_generate.errors import shown


def whole_number(minimum: int) -> Callable[[str], int]:
    """Return an argument type that takes whole numbers of at least ``minimum``."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise argparse.ArgumentTypeError(
                f"must be a whole number of at least {minimum}, not {shown(text)}"
            )
        return value

    return parse


class OneLineParser(argparse.ArgumentParser):
    """A parser whose complaint is one line, like every other error here."""

    def error(self, message: str) -> NoReturn:
        """Say what was wrong and where to look, and end with exit code 2."""
        self.exit(2, f"error: {message}; for what can be typed see: {self.prog} --help\n")
