"""Whether a rung is exact: fed the same tokens, does it give the same logits?

Two loops that choose for themselves may part at a near tie and stay apart, both of them right. So
exactness is judged on given tokens; where the free runs part is reported beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from inside_generate import timing
from inside_generate.disagreement import difference
from inside_generate.guards import check_sizes
from inside_generate.ladder.rungs import Inputs, Rung
from inside_generate.rounding import logit_tolerance
from inside_generate.timing import Clock

BEST = 20  # logits of a step that count for exactness; ``rounding`` bounds the best ones only


@dataclass(frozen=True)
class FreeRun:
    """What a rung answered by itself, greedily, and how long each token took."""

    ids: tuple[int, ...]
    seconds: tuple[float, ...]  # the first is TTFT: prefill and choice

    @property
    def ttft_s(self) -> float:
        """Seconds to the first token."""
        return timing.ttft_s(self.seconds)

    @property
    def tpot_s(self) -> float:
        """Mean seconds of a token after the first; of a single token there is none."""
        tpot = timing.tpot_s(self.seconds)
        if tpot is None:
            raise ValueError("a time per output token needs at least 2 tokens")
        return tpot


@dataclass(frozen=True)
class Agreement:
    """A rung beside the reference loop, fed the same tokens."""

    exact: bool  # no good logit further off than the tolerance, at any step
    largest_difference: float  # among the best logits of either, at any step
    largest_of_all: float  # among all V logits: poor ones lie further apart in 16 bits
    tolerance: float
    first_divergence: int | None  # the first token, from 1, at which the free runs part
    margin: float | None  # the reference's best logit minus its second best, there


def free(rung: Rung, inputs: Inputs, tokens: int, clock: Clock) -> FreeRun:
    """Let a rung answer with ``tokens`` tokens, greedily, without an EOS."""
    check_sizes(1, tokens=tokens)
    ids, seconds = [], []
    start = clock()
    logits = rung.start(inputs)
    while True:
        token_ids = logits.argmax(dim=-1, keepdim=True)  # [1, 1]
        ids.append(int(token_ids))
        seconds.append(clock() - start)
        if len(ids) == tokens:
            return FreeRun(tuple(ids), tuple(seconds))
        start = clock()
        logits = rung.step(token_ids)


def forced(rung: Rung, inputs: Inputs, ids: Sequence[int]) -> torch.Tensor:
    """Return the logits that score each of the given tokens, [T, V], in float32 on the CPU."""
    logits = [rung.start(inputs)]  # [1, V]
    for token in ids[:-1]:  # the last one is scored and never fed in
        logits.append(rung.step(inputs["input_ids"].new_tensor([[token]])))
    return torch.cat([row.float().cpu() for row in logits])


def max_difference_of_best(ours: torch.Tensor, theirs: torch.Tensor, best: int = BEST) -> float:
    """Return the largest difference among the ``best`` logits of each, at any step; both [T, V]."""
    best = min(best, ours.shape[-1])
    places = torch.cat([one.topk(best, dim=-1).indices for one in (ours, theirs)], dim=-1)
    return float((ours - theirs).gather(-1, places).abs().max())  # NaN where a logit is no number


def agreement(
    reference: torch.Tensor,
    reference_ids: Sequence[int],
    other: torch.Tensor,
    other_ids: Sequence[int],
    dtype: torch.dtype,
) -> Agreement:
    """Compare two rungs: logits [T, V] on the same tokens, and the ids of their free runs."""
    tolerance = logit_tolerance(dtype)
    found = difference(reference, other)
    largest = max_difference_of_best(reference, other)
    pairs = enumerate(zip(reference_ids, other_ids, strict=True))
    parting = next((place for place, (ours, theirs) in pairs if ours != theirs), None)
    return Agreement(
        exact=largest <= tolerance,  # NaN is not
        largest_difference=round(largest, 6),
        largest_of_all=round(found.largest, 6),
        tolerance=tolerance,
        first_divergence=None if parting is None else parting + 1,
        margin=None if parting is None else found.margins[parting],
    )
