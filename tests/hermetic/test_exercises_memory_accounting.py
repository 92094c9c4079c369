"""The checks of `12_memory_accounting` accept a right answer and name the likely mistakes."""

from itertools import accumulate

import pytest
import torch

from inside_generate import logits_bytes
from inside_generate.exercises.checking import RIGHT
from inside_generate.exercises.memory_accounting import (
    check_added,
    check_longest_prompt,
    check_peak,
    check_predictions,
)


def added(run, allocator):
    before = allocator.allocated()
    allocator.reset_peak()
    run()
    return allocator.peak() - before


def without_reset(run, allocator):
    before = allocator.allocated()
    run()
    return allocator.peak() - before


def without_baseline(run, allocator):
    allocator.reset_peak()
    run()
    return allocator.peak()


def baseline_too_late(run, allocator):
    allocator.reset_peak()
    run()
    return allocator.peak() - allocator.allocated()


def reset_too_late(run, allocator):
    before = allocator.allocated()
    run()
    allocator.reset_peak()
    return allocator.peak() - before


def some_rows(hidden, W, rows=8):
    return torch.cat([(part @ W.T).argmax(dim=-1) for part in hidden.split(rows)])


@pytest.mark.parametrize(
    ("check", "function", "said"),
    [
        (check_peak, lambda run: max(0, *accumulate(run)), RIGHT),
        (check_peak, sum, "left at the end"),
        (check_peak, lambda run: sum(x for x in run if x > 0), "no longer counts"),
        (check_peak, max, "largest single change"),
        (check_peak, len, "gives 4"),
        (check_peak, 3, "asks for a function"),
        (check_added, added, RIGHT),
        (check_added, without_reset, "something earlier"),
        (check_added, lambda run, a: a.peak(), "something earlier"),
        (check_added, without_baseline, "take off what was allocated"),
        (check_added, baseline_too_late, "before the run, not after"),
        (check_added, reset_too_late, "reset too late"),
        (check_added, lambda run, a: "much", "return a number of bytes"),
        (check_added, lambda run, a: run(5), "TypeError"),
        (check_predictions, some_rows, RIGHT),
        (check_predictions, lambda h, W: some_rows(h, W).tolist(), RIGHT),
        (check_predictions, lambda h, W: (h @ W.T).argmax(dim=-1), "the peak is 1.0"),
        (check_predictions, lambda h, W: some_rows(h, W)[:-1], "yours are"),
        (check_predictions, lambda h, W: torch.zeros(len(h), dtype=int), "the first are"),
        (check_predictions, lambda h, W: h @ W, "RuntimeError"),
        (check_predictions, lambda h, W: "ids", "return ids"),
        (check_predictions, lambda h, W: None, "is there a `return`"),
    ],
)
def test_a_check_knows_right_from_likely_wrong(check, function, said):
    assert said in check(function)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda c, budget: budget // logits_bytes(c, 1), RIGHT),
        (lambda c, budget: budget / logits_bytes(c, 1), "rounded down"),
        (lambda c, budget: -(-budget // logits_bytes(c, 1)), "no longer fits"),
        (lambda c, budget: budget // c.vocab_size, "2 bytes"),
        (lambda c, budget: [1], "gives [1]"),
        (3, "asks for a function"),
    ],
)
def test_the_longest_prompts_check(model, function, said):
    assert said in check_longest_prompt(function, model.config)
