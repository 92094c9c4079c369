"""How an exercise is checked: the learner's value or function in, an answer in words out.

An answer begins with "Right" or with "Not yet" and then hints at the mistake that is most likely.
A check tries the learner's function on several inputs and never shows the solution. Whatever it is
given it answers and does not raise: values are compared, read and shown by the helpers below.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from numbers import Real
from typing import Any

import torch

RIGHT = "Right."
UNTRIED = "Not yet: write your answer in the place of `...`."
LONGEST = 300  # characters of a learner's value that a hint shows
MOST = 10_000  # parts that are taken from a generator


def answer(hint: str | None) -> str:
    """Return the words for a hint; no hint means that nothing was wrong."""
    return RIGHT if hint is None else f"Not yet: {hint}"


def attempt(function: Any, *arguments: Any) -> tuple[Any, str | None]:
    """Call the learner's function: its result, or a hint where it raised or returned nothing.

    A generator is read here, into a list: its code is the learner's too.
    """
    try:
        result = function(*arguments)
        if isinstance(result, Iterator):
            result = list(islice(result, MOST))
    except Exception as error:  # whatever a learner's code raises becomes a hint
        return None, f"your function raised {raised(error)}"
    return result, "your function returns None: is there a `return`?" if result is None else None


# --- showing what a learner made ------------------------------------------------------------------


def shortened(text: str) -> str:
    """Return a text as one line that can be printed, cut where it is too long for a hint."""
    line = " ".join(part.strip() for part in text.splitlines())
    line = line.encode("utf-8", "backslashreplace").decode("utf-8")
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"


def shown(value: Any) -> str:
    """Return how Python writes a learner's value, on one short line, whatever it is."""
    try:
        return shortened(repr(value))
    except Exception:  # numbers of very many digits, nesting without end, a faulty `__repr__`
        return f"a value of type {type(value).__name__} that cannot be shown"


def raised(error: Exception) -> str:
    """Return an exception's class and message on one short line."""
    try:
        message = str(error)
    except Exception:  # the class is a learner's, too
        message = "a message that cannot be shown"
    return shortened(": ".join([type(error).__name__, *filter(None, [message])]))


# --- reading and comparing it ---------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return tensors, arrays, tuples and ranges as lists and plain numbers, however deep.

    Raises whatever the value's own code raises; the functions below catch that.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple | range) else value


def same(found: Any, right: Any) -> bool:
    """Return whether two values are equal, be they lists, tuples, arrays or tensors."""
    try:
        return bool(plain(found) == plain(right))
    except Exception:  # a comparison that raises is no equality
        return False


def _alone(value: Any) -> Any:
    """Return the only value in a tensor or an array; anything else as it is."""
    alone = plain(value)
    while hasattr(value, "tolist") and isinstance(alone, list) and len(alone) == 1:
        alone = alone[0]
    return alone


def truth(value: Any) -> bool | None:
    """Return a learner's True or False, a tensor's or an array's too, or ``None``."""
    try:
        found = _alone(value)
    except Exception:  # the value's own code may raise anything
        return None
    return found if isinstance(found, bool) else None


def number(value: Any) -> float | None:
    """Return a learner's one number as a float, or ``None`` where it is none or too large."""
    try:
        found = _alone(value)
        return None if isinstance(found, bool) or not isinstance(found, Real) else float(found)
    except Exception:  # the value's own code may raise anything
        return None


def whole_numbers(result: Any) -> list[int] | None:
    """Return a learner's ids as a flat list, or ``None`` where they are not whole numbers."""
    try:
        found = _flat(plain(result))
        whole = [int(part) for part in found]
        return whole if all(found[i] == whole[i] for i in range(len(whole))) else None
    except Exception:  # the value's own code may raise anything
        return None


def _flat(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in _flat(part)] if isinstance(value, list) else [value]


def real_tensor(value: Any) -> torch.Tensor | None:
    """Return a tensor, array or nested list as a tensor on the CPU, its dtype kept.

    ``None`` where it is none, or holds something that is no real number.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # an array that is read-only, for one
            found = torch.as_tensor(value).detach().cpu().to_dense()
            found.double().tolist()
    except Exception:  # the value's own code may raise anything
        return None
    return None if found.is_complex() or found.is_quantized else found


# --- functions of a few inputs --------------------------------------------------------------------


def check_table(
    function: Any, cases: Mapping[tuple[Any, ...], Any], mistakes: Mapping[str, Callable[..., Any]]
) -> str:
    """Check a function against a table, and name the known mistake that it makes."""
    if function is ...:
        return UNTRIED
    if not callable(function):
        return answer(f"this asks for a function, not for {shown(function)}")
    results = {arguments: attempt(function, *arguments) for arguments in cases}
    for arguments, (result, error) in results.items():
        if result is ...:
            return UNTRIED
        if error:
            return answer(error)
        if not same(result, cases[arguments]):
            return answer(_hint(results, mistakes, arguments, result))
    return RIGHT


def _hint(
    results: Mapping[tuple[Any, ...], tuple[Any, str | None]],
    mistakes: Mapping[str, Callable[..., Any]],
    arguments: tuple[Any, ...],
    result: Any,
) -> str:
    for hint, mistake in mistakes.items():
        if all(same(found, mistake(*inputs)) for inputs, (found, _) in results.items()):
            return hint
    return f"for {arguments} your function gives {shown(result)}"
