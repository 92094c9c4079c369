"""Whether two runs agree and, if not, the first step at which they part.

For people who write an engine of their own: let it answer the reference's prompt, write its ids
(and its best logits, if it can) under the keys of the reference's file, and compare. What follows
the first parting is not compared: runs that have read different tokens have no reason to agree.

What it leaves to others: reading files (``run_file``), walking through them (``partings``), and
when logits count as the same (``near_ties``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inside_generate.comparing.near_ties import check_tolerance, default_tolerance
from inside_generate.comparing.partings import STOP_REASON, Finding, Walk
from inside_generate.comparing.run_fields import in_a_line
from inside_generate.comparing.run_file import CONTEXT, Run, as_run, read_run, run_in
from inside_generate.errors import InsideGenerateError

__all__ = ["Comparison", "Finding", "compare_runs", "format_comparison", "read_run", "run"]

AGREE = "agree"
PART = "part"


@dataclass(frozen=True)
class Comparison:
    """What came out, and how far it reaches."""

    verdict: str  # "agree" or "part"
    findings: tuple[Finding, ...]  # the first parting first; empty where the runs agree
    tolerance: float  # largest difference of two logits that count as the same
    tolerance_reason: str
    largest_difference: float | None  # of logits before the parting; None where none were compared
    agreed: tuple[str, ...]
    not_compared: tuple[str, ...]
    remarks: tuple[str, ...]  # near ties, odd spellings, shapes: no disagreement in themselves
    context: tuple[str, ...]  # model, dtype, device and versions, where they differ


def run(
    reference_path: str | Path,
    other_path: str | Path,
    tolerance: float | None,
    say: Callable[[str], None],
) -> int:
    """Compare two files, say what came out, and return 0 where they agree, else 1."""
    if tolerance is not None:
        check_tolerance(tolerance)
    comparison = _compare(run_in(reference_path), run_in(other_path), tolerance)
    say(f"reference  {reference_path}\nother      {other_path}\n{format_comparison(comparison)}")
    return 0 if comparison.verdict == AGREE else 1


def compare_runs(
    reference: dict[str, Any], other: dict[str, Any], tolerance: float | None = None
) -> Comparison:
    """Compare two runs under the keys of their files; ``tolerance=None`` goes by their dtypes."""
    return _compare(as_run(reference, "the reference"), as_run(other, "the other"), tolerance)


def _compare(ours: Run, theirs: Run, tolerance: float | None) -> Comparison:
    if tolerance is None:
        limit, reason = default_tolerance(ours.context.get("dtype"), theirs.context.get("dtype"))
    else:
        limit, reason = check_tolerance(tolerance), "as asked for"
    walk = Walk(ours, theirs, limit)
    findings = [*walk.findings(), *_faults(ours, theirs)]
    if not findings and set(walk.agreed) <= {STOP_REASON}:  # two empty runs are no agreement
        raise InsideGenerateError(f"there is nothing to compare: {'; '.join(walk.not_compared)}")
    return Comparison(
        verdict=PART if findings else AGREE,
        findings=tuple(findings),
        tolerance=limit,
        tolerance_reason=reason,
        largest_difference=walk.largest,
        agreed=tuple(walk.agreed),
        not_compared=tuple(walk.not_compared),
        remarks=(*_remarks(ours, theirs), *walk.remarks),
        context=tuple(_context(ours, theirs)),
    )


def format_comparison(comparison: Comparison) -> str:
    """Return the comparison as text; its last line is the verdict."""
    blocks = [
        ("tolerance", (f"{comparison.tolerance:g}: {comparison.tolerance_reason}",)),
        ("differing", comparison.context),
        ("remarks", _first_few(comparison.remarks)),
        ("the same", comparison.agreed),
        ("logits", (_largest(comparison),)),
        ("left out", comparison.not_compared),
        *(("they part", finding.lines) for finding in comparison.findings),
    ]
    lines = [line for title, block in blocks for line in _block(title, block)]
    return "\n".join([*lines, _verdict(comparison)])


def _block(title: str, lines: tuple[str, ...]) -> list[str]:
    return [f"{title if i == 0 else '':<11}{line}" for i, line in enumerate(lines)]


def _first_few(lines: tuple[str, ...], most: int = 8) -> tuple[str, ...]:
    more = len(lines) - most
    return (*lines[:most], f"and {more} more") if more > 0 else lines


def _largest(comparison: Comparison) -> str:
    if comparison.largest_difference is None:
        return "none compared"
    until = " before the runs part" if comparison.findings else ""
    return f"at most {comparison.largest_difference:.2g} apart{until}"


def _verdict(comparison: Comparison) -> str:
    if comparison.verdict == AGREE:
        scope = ", as far as both files go" if comparison.not_compared else ""
        return f"agree{scope}: {', '.join(comparison.agreed)}"
    first = comparison.findings[0]
    places = {"prompt": "in the prompt", "file": "because a file is faulty in itself"}
    place = places.get(first.where, f"at token {first.step} ({first.where})")
    if first.step is None:
        place = places.get(first.where, "at the end")
    reasons = {True: ": a near tie, explained by rounding", False: ": not explained by rounding"}
    return f"part {place}{'' if first.near_tie is None else reasons[first.near_tie]}"


def _faults(ours: Run, theirs: Run) -> list[Finding]:
    return [
        Finding("file", None, (f"the {whose} is faulty in itself: {fault}",))
        for whose, run in (("reference", ours), ("other", theirs))
        for fault in run.faults
    ]


def _remarks(ours: Run, theirs: Run) -> list[str]:
    return [
        f"the {whose}: {remark}"
        for whose, run in (("reference", ours), ("other", theirs))
        for remark in run.remarks
    ]


def _context(ours: Run, theirs: Run) -> list[str]:
    """Say where model, dtype, device or versions differ, and what is to be expected of that."""
    expected = {
        "model_id": " (other weights: other tokens are to be expected)",
        "revision": " (perhaps other weights: other tokens are to be expected)",
        "dtype": " (each rounds differently)",
    }
    return [
        f"{key}: {in_a_line(ours.context[key])} against {in_a_line(theirs.context[key])}"
        f"{expected.get(key, '')}"
        for key in CONTEXT
        if key in ours.context and ours.context[key] != theirs.context.get(key, ours.context[key])
    ]
