"""When two programs' logits count as the same, and when rounding explains another choice.

Two right programs add the same numbers in another order, and each addition rounds. Their logits
then differ a little, and where the two best logits of a step lie closer than that, each may pick
another token: a near tie. A larger gap is not explained by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from inside_generate.comparing.run_fields import Scored, quoted, shortened
from inside_generate.errors import InsideGenerateError
from inside_generate.rounding import LOGIT_TOLERANCES

SPACINGS = {"float16": "0.0156", "bfloat16": "0.125"}
OTHER_NAMES = {
    "bf16": "bfloat16",
    **dict.fromkeys(("fp16", "f16", "half"), "float16"),
    **dict.fromkeys(("fp32", "f32", "float"), "float32"),
    **dict.fromkeys(("fp64", "f64", "double"), "float64"),
}


@dataclass(frozen=True)
class TopKDifference:
    """How the best candidates of one step compare in two runs."""

    beyond: tuple[str, ...]  # what rounding does not explain; empty where they agree
    largest: float | None  # between logits of the same id; None where no id is in both
    near_ties: tuple[str, ...]  # same logits within the tolerance, in another order


NOT_GIVEN = TopKDifference((), None, ())
MOST_NAMED = 3  # of the near ties, or of the faulty logits, of one step


def default_tolerance(*dtypes: str | None) -> tuple[float, str]:
    """Return the tolerance for logits of the coarsest of these dtypes, and the reason in words."""
    named = [dtype.lower().removeprefix("torch.") for dtype in dtypes if dtype]
    known = [OTHER_NAMES.get(dtype, dtype) for dtype in named]
    if not known:
        return LOGIT_TOLERANCES["bfloat16"], (
            "neither file names a dtype, so bfloat16 is assumed (--tolerance 0.001 for float32)"
        )
    widest = max(known, key=lambda dtype: LOGIT_TOLERANCES.get(dtype, math.inf))
    if widest not in LOGIT_TOLERANCES:
        reason = f"as for bfloat16, since {shortened(widest)} is not a dtype known here"
        return LOGIT_TOLERANCES["bfloat16"], reason
    if widest in SPACINGS:
        return LOGIT_TOLERANCES[widest], (
            f"{widest} numbers between 16 and 32 lie {SPACINGS[widest]} apart, "
            "and many roundings add up to several of these"
        )
    return LOGIT_TOLERANCES[widest], f"for {widest}, room for long sums in another order"


def check_tolerance(tolerance: float) -> float:
    """Return ``tolerance``, or raise where it is not a finite number of at least 0."""
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float):
        raise InsideGenerateError(f"--tolerance must be a number, not {tolerance!r}")
    if not math.isfinite(tolerance) or tolerance < 0:
        raise InsideGenerateError(f"--tolerance must be a number of at least 0, not {tolerance}")
    return tolerance


def compare_top_k(
    reference: tuple[Scored, ...], other: tuple[Scored, ...], tolerance: float
) -> TopKDifference:
    """Compare two lists, each best first. An empty one is a list that a file does not give."""
    if not reference and not other:
        return NOT_GIVEN
    beyond = [*_not_finite("reference", reference), *_not_finite("other", other)]
    if not reference or not other or beyond:
        return TopKDifference(tuple(beyond), None, ())
    ours, theirs = _logits(reference), _logits(other)
    apart = {
        token_id: abs(ours[token_id] - theirs[token_id]) for token_id in ours if token_id in theirs
    }
    worst = max(apart, key=lambda token_id: apart[token_id], default=None)
    if worst is not None and apart[worst] > tolerance:
        beyond.append(
            f"the logit of {named(worst, reference)} is {ours[worst]:.7g} in the reference and "
            f"{theirs[worst]:.7g} in the other: {apart[worst]:.2g} apart, more than {tolerance:g}"
        )
    beyond += _left_out("reference", reference, "other", other, tolerance)
    beyond += _left_out("other", other, "reference", reference, tolerance)
    ties = () if beyond else _reordered(reference, theirs)
    return TopKDifference(tuple(beyond), max(apart.values(), default=None), ties)


def named(token_id: int, *lists: tuple[Scored, ...]) -> str:
    """Return an id with its text where one of the lists knows it: ``198 '\\n'``."""
    for one in (one for scored in lists for one in scored):
        if one.token_id == token_id and one.text is not None:
            return f"{token_id} {quoted(one.text)}"
    return str(token_id)


def two_best(whose: str, best_first: tuple[Scored, ...], tolerance: float) -> list[str]:
    """Return a line on the two best candidates and their margin; none where there are not two."""
    if len(best_first) < 2:
        return []
    best, second = best_first[:2]
    margin = best.logit - second.logit
    side = "more" if margin > tolerance else "not more"
    return [
        f"the {whose}'s two best: {named(best.token_id, best_first)} with {best.logit:.7g}, "
        f"{named(second.token_id, best_first)} with {second.logit:.7g}; the margin {margin:.2g} "
        f"is {side} than the tolerance"
    ]


def explain_choice(
    reference: tuple[Scored, ...],
    other: tuple[Scored, ...],
    chosen: tuple[int, int],
    logits_differ: bool,
    tolerance: float,
) -> tuple[bool | None, str]:
    """Say whether rounding explains that two runs ``chosen`` differently (reference, other).

    ``None`` where the files do not hold enough to tell.
    """
    if logits_differ:
        return (
            False,
            "not rounding: the logits themselves differ (mask, positions, cache, weights?)",
        )
    if not reference:
        return None, "near tie or bug? The reference holds no logits of this step"
    if not _is_best(chosen[0], reference):
        return (
            None,
            "the reference did not pick its best token: not a greedy run, so no margin tells",
        )
    gap, exact = _gap_to(chosen[1], reference)
    if exact and gap <= tolerance:
        return True, f"a near tie: {gap:.2g} apart, within {tolerance:g}, so rounding explains it"
    if other and not _is_best(chosen[1], other):
        return False, "not rounding: the other did not pick its own best token (sampling, penalty?)"
    least = "" if exact else "at least "
    if other:
        return True, f"a near tie: {least}{gap:.2g} apart, and each logit is within {tolerance:g}"
    if gap > 2 * tolerance:  # each of the two logits may be off by the tolerance
        return False, f"not rounding: {least}{gap:.2g} apart, more than twice {tolerance:g}"
    if exact:
        return None, (
            f"near tie or bug? {gap:.2g} apart is more than {tolerance:g} and not more than twice "
            "that: the other run's logits would tell"
        )
    return None, "near tie or bug? The other's choice is not among the reference's candidates"


def _is_best(token_id: int, best_first: tuple[Scored, ...]) -> bool:
    """Whether no logit is higher; of equal ones each is the best."""
    return _logits(best_first).get(token_id) == best_first[0].logit


def _gap_to(token_id: int, best_first: tuple[Scored, ...]) -> tuple[float, bool]:
    """Return how far ``token_id`` lies below the best logit, and whether exactly that far.

    An id outside the list lies at least as far below as the list's last.
    """
    logits = _logits(best_first)
    best, last = best_first[0].logit, best_first[-1].logit
    return (best - logits[token_id], True) if token_id in logits else (best - last, False)


def _logits(best_first: tuple[Scored, ...]) -> Mapping[int, float]:
    return {one.token_id: one.logit for one in best_first}


def _not_finite(whose: str, best_first: tuple[Scored, ...]) -> list[str]:
    faulty = [one for one in best_first if not math.isfinite(one.logit)]
    lines = [
        f"the logit of {named(one.token_id, best_first)} is {one.logit} in the {whose}"
        for one in faulty[:MOST_NAMED]
    ]
    return [*lines, *_and_more(len(faulty), "logit")]


def _left_out(
    whose: str,
    best: tuple[Scored, ...],
    whose_else: str,
    others: tuple[Scored, ...],
    tolerance: float,
) -> list[str]:
    """Say which id of ``best`` stands too high to be missing among ``others``."""
    known, lowest = _logits(others), others[-1].logit
    for one in best:
        if one.token_id not in known and one.logit - lowest > tolerance:
            return [
                f"{named(one.token_id, best)} has {one.logit:.7g} in the {whose} and is not among "
                f"the {whose_else}'s best {len(others)}, which end at {lowest:.7g}"
            ]
    return []


def _reordered(reference: tuple[Scored, ...], theirs: Mapping[int, float]) -> tuple[str, ...]:
    """Name the neighbours that stand the other way round in the other list, the best ones first."""
    shared = tuple(one for one in reference if one.token_id in theirs)
    changed = [
        (high, low)
        for high, low in pairwise(shared)
        if theirs[high.token_id] < theirs[low.token_id]
    ]
    lines = [
        f"{named(high.token_id, (high,))} and {named(low.token_id, (low,))} change places "
        f"({high.logit - low.logit:.2g} apart in the reference)"
        for high, low in changed[:MOST_NAMED]
    ]
    return (*lines, *_and_more(len(changed), "pair"))


def _and_more(number: int, noun: str) -> list[str]:
    return [f"and {counted(number - MOST_NAMED, noun)} more"] if number > MOST_NAMED else []


def counted(number: int, noun: str) -> str:
    """Return "1 token", "2 tokens"."""
    return f"{number} {noun}" + "s" * (number != 1)
