"""Guards for numbers that are passed in: sizes, ids, readings. Each names the value that was wrong.

Formulas and figures take almost any number and answer with one that looks right. What the doors of
``prefill`` and ``decode_step`` refuse is in ``checks``.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Sized
from typing import Any

from inside_generate.errors import shown


def check_sizes(at_least: int = 0, /, **sizes: int) -> None:
    """Raise ``ValueError`` unless each size is a whole number of at least ``at_least``."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            raise ValueError(
                f"{name} must be a whole number of at least {at_least}, not {shown(value)}"
            )


def whole_number(name: str, value: Any) -> int:
    """Return a whole number, NumPy's and tensors' included, as an ``int``, or raise."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise ValueError(f"{name} must be a whole number, not {shown(value)}")


def check_ids_in_a_row(name: str, ids: Any) -> list[int]:
    """Return whole numbers that stand in an order (a set has none) as a list, or raise."""
    try:
        row = None if isinstance(ids, (str, bytes, set, frozenset, dict)) else list(ids)
    except TypeError:
        row = None
    if row is None:
        raise ValueError(f"{name} is a row of ids, not {shown(ids)}")
    return [whole_number("a token id", token_id) for token_id in row]


def check_text(name: str, text: Any) -> None:
    """Raise ``ValueError`` unless this is a string of whole characters."""
    if not isinstance(text, str):
        raise ValueError(f"{name} must be a string, not {shown(text)}")
    if lone := re.search(r"[\ud800-\udfff]", text):
        raise ValueError(f"{name} holds {lone.group()!r}, half of a character: not valid text")


def check_has(value: Any, *names: str, hint: str) -> None:
    """Raise unless ``value`` has all that is asked of it: another thing was handed in."""
    for name in names:
        if not hasattr(value, name):
            raise ValueError(f"{type(value).__name__} has no {name}: {hint}")


def check_numbers(
    name: str,
    values: Iterable[Any],
    at_least: int = 1,
    low: float = -math.inf,
    high: float = math.inf,
) -> list[float]:
    """Return the values as floats; raise unless enough of them, finite, ``low`` to ``high``."""
    try:
        given = list(values)
        if any(isinstance(value, (str, bytes)) for value in given):
            raise TypeError  # what follows would compute with the text
        numbers = [float(value) for value in given]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be numbers, not {shown(values)}") from None
    if len(numbers) < at_least:
        raise ValueError(f"{name}: at least {at_least} needed, not {len(numbers)}")
    for number in numbers:
        if not (math.isfinite(number) and low <= number <= high):
            raise ValueError(f"{name} must be {_reach(low, high)}, not {number!r}")
    return numbers


def check_probabilities(name: str, values: Iterable[Any]) -> list[float]:
    """Return the values as floats; raise unless each is 0 to 1, rounding allowed for."""
    return check_numbers(name, values, low=0, high=1 + 1e-6)


def check_as_many(**rows: Sized) -> None:
    """Raise ``ValueError`` unless the rows, which belong together, are equally long."""
    lengths = {name: len(row) for name, row in rows.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"as many are needed of each, not {lengths}")


def _reach(low: float, high: float) -> str:
    if low == -math.inf:
        return "finite"
    return f"{low:g} to {high:g}" if high < math.inf else f"finite and at least {low:g}"
