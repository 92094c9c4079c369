"""Guards for numbers that are passed in: sizes, ids, readings. Each names the value that was wrong.

Formulas and figures take almost any number and answer with one that looks right. What the doors of
``prefill`` and ``decode_step`` refuse is in ``checks``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sized
from typing import Any


def check_sizes(at_least: int = 0, /, **sizes: int) -> None:
    """Raise ``ValueError`` unless each size is a whole number of at least ``at_least``."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            raise ValueError(f"{name} must be a whole number of at least {at_least}, not {value!r}")


def whole_number(name: str, value: Any) -> int:
    """Return a whole number, NumPy's and tensors' included, as an ``int``, or raise."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise ValueError(f"{name} must be a whole number, not {value!r}")


def check_numbers(
    name: str,
    values: Iterable[Any],
    at_least: int = 1,
    low: float = -math.inf,
    high: float = math.inf,
) -> list[float]:
    """Return the values as floats; raise unless enough of them, finite, ``low`` to ``high``."""
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be numbers, not {values!r}") from None
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
