"""The checks of the exercises in `15_choosing_tokens`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    number,
    plain,
    shown,
)

Beam = tuple[tuple[int, ...], float]  # ids so far, and their log-probability
Row = Sequence[float]

SHARES: tuple[Row, ...] = (  # no two equal: which of them top-p keeps is up to the sort
    (0.5, 0.25, 0.1875, 0.0625),
    (0.0625, 0.5, 0.25, 0.1875),
    (0.0625, 0.125, 0.03125, 0.78125),
)


def check_top_p(function: Any) -> str:
    """Check ``function(probabilities, p)``: the ids that top-p keeps, lowest id first."""
    cases = {(row, p): _top_p(row, p) for row in SHARES for p in (0.1, 0.5, 0.6, 0.75, 0.8)}
    return check_table(
        _given_lists(function),
        cases,
        {
            "the token that reaches p is kept as well": lambda row, p: _before(row, p) or [],
            "the best token stays, however small p is; and the one that reaches p": (
                lambda row, p: _before(row, p) or _falling(row)[:1]
            ),
            "where the sum is p exactly, that is enough": (
                lambda row, p: sorted(_falling(row)[: _steps(row, p, past=True)])
            ),
            "begin with the most probable token, not with id 0": (
                lambda row, p: list(range(_steps(row, p, order=range(len(row)))))
            ),
            "that is the order of the probabilities; sort the ids": (
                lambda row, p: _falling(row)[: _steps(row, p)]
            ),
            "p is for the sum, not for each token": (
                lambda row, p: [place for place, share in enumerate(row) if share >= p]
            ),
            "that is how many are kept; which ones are they?": _steps,
        },
    )


def check_penalty(function: Any) -> str:
    """Check ``function(logits, ids, penalty)``: the logits after a repetition penalty."""
    rows: tuple[Row, ...] = ((4.0, -4.0, 2.0, 0.0), (-1.0, -8.0, 16.0, 3.0))
    seen = ((0, 1), (1, 1, 2, 2, 2), (3,), ())
    cases = {(row, ids, q): _penalised(row, ids, q) for row in rows for ids in seen for q in (2, 4)}
    return check_table(
        _given_lists(function),
        cases,
        {
            "dividing a logit below 0 raises it: which way must that one go?": (
                lambda row, ids, q: [z / q if i in ids else z for i, z in enumerate(row)]
            ),
            "multiplying a logit above 0 raises it: which way must that one go?": (
                lambda row, ids, q: [z * q if i in ids else z for i, z in enumerate(row)]
            ),
            "how often a token has occurred does not matter": (
                lambda row, ids, q: [_lower(z, float(q) ** ids.count(i)) for i, z in enumerate(row)]
            ),
            "the penalty is a factor; nothing is subtracted": (
                lambda row, ids, q: [z - q if i in ids else z for i, z in enumerate(row)]
            ),
            "only the tokens that have occurred are penalised": (
                lambda row, _, q: [_lower(z, q) for z in row]
            ),
        },
    )


def check_draw(function: Any) -> str:
    """Check ``function(probabilities, u)``: the token drawn by a chance number, 0 ≤ u < 1."""
    chances = (0.0, 0.1, 0.125, 0.3, 0.5, 0.625, 0.7, 0.75, 0.9, 0.99)
    rows = (*SHARES, (0.0, 0.5, 0.0, 0.5))
    return check_table(
        _given_lists(function),
        {(row, u): _drawn(row, u) for row in rows for u in chances},
        {
            "that is the best token each time: where does u come in?": (
                lambda row, _: _falling(row)[0]
            ),
            "at the border u belongs to the next token, or one with probability 0 can be drawn": (
                lambda row, u: next(i for i in range(len(row)) if sum(row[: i + 1]) >= u)
            ),
            "u is compared with the sum so far, not with one probability": (
                lambda row, u: next((i for i, share in enumerate(row) if share > u), len(row) - 1)
            ),
            "lay them end to end in order of the ids, without sorting": (
                lambda row, u: _falling(row)[_drawn(sorted(row, reverse=True), u)]
            ),
            "u falls into a token's share of the way from 0 to 1, not into one of equal parts": (
                lambda row, u: int(u * len(row))
            ),
        },
    )


def check_beam_step(function: Any) -> str:
    """Check ``function(beams, log_p, count)``: the ``count`` best beams, one token longer.

    ``beams`` are (ids, log-probability), ``log_p[i][v]`` is what beam i gives to token v.
    """
    if function is ...:
        return UNTRIED
    for beams, log_p, count in _beam_cases():
        result, error = attempt(function, list(beams), [list(row) for row in log_p], count)
        if result is ...:
            return UNTRIED
        if error:
            return answer(error)
        found = _read_beams(result)
        if found is None:
            return answer(f"return a list of (ids, log_p), not {shown(result)}")
        if hint := _beam_hint(found, beams, log_p, count):
            return answer(hint)
    return RIGHT


def _given_lists(function: Any) -> Any:
    """Return a learner's function such that it is given lists of its own, as the exercise says."""
    if not callable(function):
        return function
    return lambda *arguments: function(
        *(list(part) if isinstance(part, tuple) else part for part in arguments)
    )


# --- beams ----------------------------------------------------------------------------------------


def _beam_cases() -> list[tuple[list[Beam], list[Row], int]]:
    shares = [[0.48, 0.02, 0.5], [0.45, 0.15, 0.4], [0.2, 0.7, 0.1]]
    log_p: list[Row] = [[math.log(share) for share in row] for row in shares]
    beams: list[Beam] = [((4, 0), math.log(0.2)), ((4, 2), math.log(0.5)), ((1, 2), math.log(0.05))]
    return [(beams[:1], log_p[:1], 2), (beams[:2], log_p[:2], 2), (beams, log_p, 3)]


def _lengthened(beams: Sequence[Beam], log_p: Sequence[Row], keep: float = 1.0) -> list[Beam]:
    """Return every beam with every token, best first; ``keep`` 0 forgets what a beam had so far."""
    longer = [
        ((*ids, token), keep * so_far + more)
        for (ids, so_far), row in zip(beams, log_p, strict=True)
        for token, more in enumerate(row)
    ]
    return sorted(longer, key=lambda beam: -beam[1])


def _beam_hint(
    found: list[Beam], beams: Sequence[Beam], log_p: Sequence[Row], count: int
) -> str | None:
    right = _lengthened(beams, log_p)
    paths = [ids for ids, _ in found]
    each = [_lengthened([beam], [row])[0][0] for beam, row in zip(beams, log_p, strict=True)]
    if len(found) != count:
        return f"{count} beams are to be kept, not {len(found)}"
    if sorted(paths) == sorted(ids for ids, _ in right[:count]):
        if paths != [ids for ids, _ in right[:count]]:
            return "the right beams; put the most probable one first"
        close = all(
            math.isclose(a[1], b[1], abs_tol=1e-6) for a, b in zip(found, right, strict=False)
        )
        return None if close else "the right beams, but log-probabilities along a path add up"
    if sorted(paths) == sorted(each):
        return "a beam may go on in two ways, and another end here: compare all of them together"
    if sorted(paths) == sorted(ids for ids, _ in _lengthened(beams, log_p, keep=0.0)[:count]):
        return "how probable the beam was so far counts as well"
    return f"for {list(beams)} your function keeps {shown(paths)}"


def _read_beams(result: Any) -> list[Beam] | None:
    try:
        found = [
            (tuple(int(token) for token in ids), number(log_p)) for ids, log_p in plain(result)
        ]
    except Exception:  # the value's own code may raise anything
        return None
    return None if any(log_p is None for _, log_p in found) else [(i, p or 0.0) for i, p in found]


# --- what is right --------------------------------------------------------------------------------


def _falling(row: Row) -> list[int]:
    return sorted(range(len(row)), key=lambda place: -row[place])


def _steps(row: Row, p: float, past: bool = False, order: Sequence[int] | None = None) -> int:
    """Return how many tokens, in order, reach the sum p, or go past it."""
    total = 0.0
    for count, place in enumerate(order or _falling(row), start=1):
        total += row[place]
        if total > p or (total == p and not past):
            return count
    return len(row)


def _top_p(row: Row, p: float) -> list[int]:
    return sorted(_falling(row)[: _steps(row, p)])


def _before(row: Row, p: float) -> list[int]:
    """Return the tokens whose sum stays at p or below it."""
    total, kept = 0.0, []
    for place in _falling(row):
        total += row[place]
        if total > p:
            break
        kept.append(place)
    return sorted(kept)


def _lower(logit: float, penalty: float) -> float:
    return logit * penalty if logit < 0 else logit / penalty


def _penalised(row: Row, ids: Sequence[int], penalty: float) -> list[float]:
    return [_lower(z, penalty) if place in ids else z for place, z in enumerate(row)]


def _drawn(row: Row, u: float) -> int:
    total = 0.0
    for place, share in enumerate(row):
        total += share
        if u < total:
            return place
    return len(row) - 1
