"""How an exercise is checked: the learner's value or function in, an answer in words out.

An answer begins with "Right" or with "Not yet" and then hints at the mistake that is most likely.
A check tries the learner's function on several inputs and never shows the solution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

RIGHT = "Right."
UNTRIED = "Not yet: write your answer in the place of `...`."


def answer(hint: str | None) -> str:
    """Return the words for a hint; no hint means that nothing was wrong."""
    return RIGHT if hint is None else f"Not yet: {hint}"


def attempt(function: Any, *arguments: Any) -> tuple[Any, str | None]:
    """Call the learner's function: its result, or a hint where it raised or returned nothing."""
    try:
        result = function(*arguments)
    except Exception as error:  # whatever a learner's code raises becomes a hint
        return None, f"your function raised {type(error).__name__}: {error}"
    return result, "your function returns None: is there a `return`?" if result is None else None


def whole_numbers(result: Any) -> list[int] | None:
    """Return a learner's ids as a flat list, or ``None`` where they are not whole numbers."""
    try:
        return [int(number) for number in torch.as_tensor(result).flatten()]
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def check_table(
    function: Any, cases: Mapping[tuple[Any, ...], Any], mistakes: Mapping[str, Callable[..., Any]]
) -> str:
    """Check a function against a table, and name the known mistake that it makes."""
    if function is ...:
        return UNTRIED
    if not callable(function):
        return answer(f"this asks for a function, not for {function!r}")
    results = {arguments: attempt(function, *arguments) for arguments in cases}
    for arguments, (result, error) in results.items():
        if result is ...:
            return UNTRIED
        if error:
            return answer(error)
        if result != cases[arguments]:
            return answer(_hint(results, mistakes, arguments, result))
    return RIGHT


def _hint(
    results: Mapping[tuple[Any, ...], tuple[Any, str | None]],
    mistakes: Mapping[str, Callable[..., Any]],
    arguments: tuple[Any, ...],
    result: Any,
) -> str:
    for hint, mistake in mistakes.items():
        if all(found == mistake(*inputs) for inputs, (found, _) in results.items()):
            return hint
    return f"for {arguments} your function gives {result!r}"
