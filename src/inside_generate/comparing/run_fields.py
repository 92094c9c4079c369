"""Single values of a run's file: read with a kind eye, or refused with their name and value.

What it knows: which spellings of an id, a logit or a text mean the same (engines differ in how they
write JSON). What it leaves to others: which keys there are (``run_file``).
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from inside_generate.errors import InsideGenerateError

MAY_HOLD_ONE = (float, dict, list)
LONGEST = 120  # characters of a text that a message shows
LARGEST_ID = 2**63 - 1  # far more than any vocabulary has; an id is a number of 64 bits
KINDS = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}


@dataclass(frozen=True)
class Scored:
    """One of the best next tokens; the logit is NaN where the file holds null."""

    token_id: int
    logit: float
    text: str | None


@dataclass
class Fields:
    """Reads the values of one file, and remembers what was odd about them."""

    name: str  # what messages call the file
    remarks: list[str] = field(default_factory=list)

    def refuse(self, reason: str) -> NoReturn:
        """Raise the error that says what is wrong with this file."""
        raise InsideGenerateError(f"{self.name}: {reason}")

    def text(self, record: Mapping[str, Any], key: str, place: str = "") -> str | None:
        """Return a text; ``None`` where there is none."""
        value = record.get(key)
        if value is not None and not isinstance(value, str):
            self.refuse(f"{place}{key} must be text, not {shortened(value)}")
        return value

    def count(self, record: Mapping[str, Any], key: str, place: str = "") -> int | None:
        """Return a whole number of at least 0; ``None`` where there is none."""
        value = record.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            self.refuse(f"{place}{key} must be 0, 1, 2 …, not {shortened(value)}")
        return value

    def items(self, record: Mapping[str, Any], key: str, place: str = "") -> list[Any] | None:
        """Return a list as it stands; ``None`` where there is none."""
        value = record.get(key)
        if value is not None and not isinstance(value, list):
            self.refuse(f"{place}{key} must be a list, not {shortened(value)}")
        return value

    def ids(self, record: Mapping[str, Any], key: str) -> tuple[int, ...] | None:
        """Return a list of token ids; ``None`` where there is none."""
        values = self.items(record, key)
        if values is None:
            return None
        if set(map(type, values)) == {int} and min(values) >= 0 and max(values) <= LARGEST_ID:
            return tuple(values)  # the usual spelling, read at once however many there are
        return tuple(self.id(value, f"{key}[{index}]") for index, value in enumerate(values))

    def id(self, value: Any, place: str) -> int:
        """Return a token id, also from ``"3838"`` and from ``3838.0``."""
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
            self.remarks.append('token ids are written as text, like "3838": read as numbers')
            value = int(value)
        elif isinstance(value, float) and value.is_integer():
            self.remarks.append("token ids are written like 3838.0: read as whole numbers")
            value = int(value)
        is_id = isinstance(value, int) and not isinstance(value, bool)
        if not is_id or not 0 <= value <= LARGEST_ID:
            self.refuse(f"{place} must be a token id (0, 1, 2 …), not {shortened(value)}")
        return int(value)

    def top_k(self, record: Mapping[str, Any], key: str, place: str = "") -> tuple[Scored, ...]:
        """Return the best next tokens, best first in whatever order the file lists them.

        One that is not a number goes to the end. The same id twice is refused.
        """
        place = place + key
        values = self.items({place: record.get(key)}, place) or []
        found = [self.scored(value, f"{place}[{index}]") for index, value in enumerate(values)]
        if len({one.token_id for one in found}) < len(found):
            self.refuse(f"{place} names the same token id twice")
        best_first = sorted(found, key=_descending)
        if [one.logit for one in best_first] != [one.logit for one in found]:
            self.remarks.append("the candidates of a step do not stand best first: sorted")
        return tuple(best_first)

    def scored(self, value: Any, place: str) -> Scored:
        """Return one candidate from ``{"token_id": …, "logit": …, "text": …}``."""
        if not isinstance(value, dict):
            self.refuse(f"{place} must be an object, not {kind(value)}")
        if missing := [key for key in ("token_id", "logit") if key not in value]:
            self.refuse(f"{place} has no {' and no '.join(missing)}")
        return Scored(
            token_id=self.id(value["token_id"], f"{place}.token_id"),
            logit=self.logit(value["logit"], f"{place}.logit"),
            text=self.text(value, "text", f"{place}."),
        )

    def logit(self, value: Any, place: str) -> float:
        """Return a number. ``null``, which some engines write for NaN, is NaN."""
        if value is None:
            return math.nan
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(f"{place} must be a number, not {shortened(value)}")
        try:
            return float(value)
        except OverflowError:  # a whole number beyond what a float holds
            return math.inf if value > 0 else -math.inf


def not_numbers(record: Any) -> list[str]:
    """Return the places of NaN and Infinity: JSON has no such numbers, but Python reads them."""
    found, waiting, seen = [], [("", record)], set[int]()
    while waiting:  # not recursive: a file may be nested deeply
        place, value = waiting.pop()
        if isinstance(value, dict | list):
            if id(value) in seen:  # nothing in a file does, but a dict may hold itself
                continue
            seen.add(id(value))
        if isinstance(value, float) and not math.isfinite(value):
            found.append(f"{place} is {value}")
        elif isinstance(value, dict):
            waiting += [(f"{place}.{key}".lstrip("."), item) for key, item in value.items()]
        elif isinstance(value, list):
            parts = [(i, item) for i, item in enumerate(value) if isinstance(item, MAY_HOLD_ONE)]
            waiting += [(f"{place}[{index}]", item) for index, item in parts]
    return found


def kind(value: Any) -> str:
    """Return what JSON calls this kind of value."""
    return KINDS.get(type(value), "a number")


def shortened(value: Any) -> str:
    """Return the value on one line, cut where it is long."""
    return reprlib.repr(value)


def quoted(text: str) -> str:
    """Return a text in quotation marks, on one line, cut where it is long."""
    written = repr(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")
    return written if len(written) <= 2 * LONGEST else f"{written[: 2 * LONGEST]}…"


def in_a_line(text: str) -> str:
    """Return a text as it is, or in quotation marks where it is long or would break the line."""
    return text if text.isprintable() and len(text) <= LONGEST else quoted(text)


def _descending(one: Scored) -> tuple[bool, float]:
    return math.isnan(one.logit), -one.logit
