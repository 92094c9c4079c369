"""The checks of the exercises in `12_memory_accounting`."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import torch

from inside_generate.cache import logits_bytes
from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    number,
    shown,
    whole_numbers,
)
from inside_generate.live_tensors import LiveTensors


def check_peak(function: Any) -> str:
    """Check ``function(changes)``: the peak of bytes, of which each change adds or frees some."""
    runs = ((100, 50, -50, -100), (10, -10, 30, -5, 20), (8,), (40, -40, 30), (5, 5, -1, 2, -11))
    return check_table(
        function,
        {(run,): max(0, *accumulate(run)) for run in runs},
        {
            "that is what is left at the end; the peak was before": sum,
            "what was freed in between no longer counts when the next bytes come": (
                lambda run: sum(change for change in run if change > 0)
            ),
            "that is the largest single change; what was alive already counts too": max,
        },
    )


class FakeAllocator:
    """A GPU's memory counters without a GPU: bytes alive now, and their peak since the reset."""

    def __init__(self, alive: int, old_peak: int) -> None:
        self._alive = alive
        self._peak = old_peak

    def allocated(self) -> int:
        """Return the bytes alive now."""
        return self._alive

    def peak(self) -> int:
        """Return the most bytes alive at once since ``reset_peak``."""
        return self._peak

    def reset_peak(self) -> None:
        """Start the peak again from what is alive now."""
        self._peak = self._alive

    def work(self, needed: int, kept: int) -> None:
        """Take ``needed`` bytes, then give back all but ``kept`` of them."""
        self._peak = max(self._peak, self._alive + needed)
        self._alive += kept


def check_added(function: Any) -> str:
    """Check ``function(run, allocator)``: how many bytes the run needed beyond what was there."""
    if function is ...:
        return UNTRIED
    for alive, old_peak, needed, kept in ((1000, 9000, 300, 40), (0, 0, 70, 70), (500, 600, 0, 0)):
        allocator = FakeAllocator(alive, old_peak)
        work = allocator.work

        def run(work: Any = work, needed: int = needed, kept: int = kept) -> None:
            work(needed, kept)

        result, error = attempt(function, run, allocator)
        if result is ...:
            return UNTRIED
        found = number(result)
        if error or found is None:
            return answer(error or f"return a number of bytes, not {shown(result)}")
        if found != needed:
            return answer(_added_hint(found, alive, old_peak, needed, kept))
    return RIGHT


def _added_hint(found: float, alive: int, old_peak: int, needed: int, kept: int) -> str:
    hints: dict[float, str] = {
        alive + needed: "that is the peak itself: take off what was allocated before the run",
        old_peak: "that is the peak of something earlier: reset it before the run",
        old_peak - alive: "that is the peak of something earlier: reset it before the run",
        kept: "that is what is left after the run, or the peak was reset too late",
        needed - kept: "read what is allocated before the run, not after it",
    }
    return hints.get(found, f"a run that needs {needed} bytes: you return {found:.10g}")


def check_longest_prompt(function: Any, config: Any) -> str:
    """Check ``function(config, budget)``: tokens whose logits, all rows in 2 bytes, still fit."""
    row = logits_bytes(config, 1)
    budgets = (row, 3 * row - 1, 3 * row, 1024**3)
    return check_table(
        function if function is ... or not callable(function) else lambda b: function(config, b),
        {(budget,): budget // row for budget in budgets},
        {
            "return a whole number of tokens, rounded down": lambda budget: budget / row,
            "that is one token too many: rounded up, it no longer fits": lambda b: -(-b // row),
            "a logit has 2 bytes here": lambda budget: 2 * budget // row,
        },
    )


def check_predictions(function: Any) -> str:
    """Check ``function(hidden, W)``: argmax of W h at each position, without all logits at once.

    ``hidden`` is [L, hidden size], ``W`` is [V, hidden size]; the answer is [L].
    """
    if function is ...:
        return UNTRIED
    generator = torch.Generator().manual_seed(0)
    W = torch.randn(
        4000, 8, generator=generator
    )  # logits are large beside what Python keeps of them
    for length in (1, 64, 65):
        hidden = torch.randn(length, 8, generator=generator)
        right = (hidden @ W.T).argmax(dim=-1).tolist()
        given = hidden.clone(), W.clone()
        with LiveTensors() as memory, _python_peak() as other:
            result, error = attempt(function, *given)
        if result is ...:
            return UNTRIED
        found = whole_numbers(result)
        if error or found is None:
            return answer(error or f"return ids, not {shown(result)}")
        if found != right:
            first = shown(found[:4])
            return answer(f"of {length} ids the first are {right[:4]}, yours are {first}")
        share = max(memory.peak_bytes, *other) / (length * len(W) * W.element_size())
        if length > 1 and share > 1 / 3:
            return answer(f"right ids, but the peak is {share:.2f} times all logits: take few rows")
    return RIGHT


@contextmanager
def _python_peak() -> Iterator[list[int]]:
    """Give a list that holds, after the block, the most bytes that arrays and lists took in it.

    ``LiveTensors`` sees tensors alone. A session that is traced already is left as it is: [0].
    """
    peak = [0]
    if tracemalloc.is_tracing():
        yield peak
        return
    tracemalloc.start()
    try:
        yield peak
        peak[0] = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
