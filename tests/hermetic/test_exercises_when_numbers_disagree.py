"""The checks of `16_when_numbers_disagree` accept a right answer and name the likely mistakes."""

import pytest
import torch

from inside_generate.exercises import when_numbers_disagree as checks
from inside_generate.exercises.checking import RIGHT, UNTRIED


def parting(ours, theirs):
    differing = ours.argmax(-1) != theirs.argmax(-1)
    return int(differing.int().argmax()) + 1 if differing.any() else None


def from_zero(ours, theirs):
    step = parting(ours, theirs)
    return None if step is None else step - 1


def other_logits(ours, theirs):
    differing = (ours != theirs).any(-1).nonzero()
    return int(differing[0]) + 1 if len(differing) else None


def last(ours, theirs):
    differing = (ours.argmax(-1) != theirs.argmax(-1)).nonzero()
    return int(differing[-1]) + 1 if len(differing) else None


def every_row(model, prompt, answer):
    with torch.inference_mode():
        return model(torch.cat([prompt, answer], dim=-1), use_cache=False).logits[0]


def at_once(model, prompt, answer):
    return every_row(model, prompt, answer)[prompt.shape[1] - 1 : -1]


TABLE = {
    (checks.check_three_numbers, "right"): ((1.0, 2**-8, 2**-8), RIGHT),
    (checks.check_three_numbers, "a tensor"): (torch.tensor([1.0, 2**-8, 2**-8]), RIGHT),
    (checks.check_three_numbers, "signs"): ((0.5, 0.5, -1.0), "both orders give 0.0"),
    (checks.check_three_numbers, "cancel"): ((2**-9, 1.0, -1.0), RIGHT),
    (checks.check_three_numbers, "too large"): ((256.0, 1.0, 1.0), "larger than 1"),
    (checks.check_three_numbers, "not bf16"): ((0.1, 0.2, 0.3), "are rounded to [0.10"),
    (checks.check_three_numbers, "same sum"): ((1.0, 0.5, 0.25), "both orders give 1.75"),
    (checks.check_three_numbers, "two"): ((1.0, 0.5), "three numbers, not for (1.0, 0.5)"),
    (checks.check_three_numbers, "infinite"): ((1.0, float("inf"), 0.0), "three numbers, not"),
    (checks.check_three_numbers, "one"): (1.0, "three numbers, not for 1.0"),
    (checks.check_can_flip, "right"): (lambda margin, error: margin <= 2 * error, RIGHT),
    (checks.check_can_flip, "not without an error"): (lambda m, e: e > 0 and m <= 2 * e, RIGHT),
    (checks.check_can_flip, "the error alone"): (lambda m, e: m <= e, "two logits move: the best"),
    (checks.check_can_flip, "error, no tie"): (lambda m, e: m < e, "and there may be a tie"),
    (checks.check_can_flip, "no tie"): (lambda m, e: m < 2 * e, "the order of the ids decides"),
    (checks.check_can_flip, "reversed"): (lambda m, e: m >= 2 * e, "the other way round"),
    (checks.check_can_flip, "never"): (lambda m, e: False, "your function gives False"),
    (checks.check_first_parting, "right"): (parting, RIGHT),
    (checks.check_first_parting, "a tensor"): (
        lambda ours, theirs: (step := parting(ours, theirs)) and torch.tensor(step),
        RIGHT,
    ),
    (checks.check_first_parting, "from 0"): (from_zero, "counted from 1"),
    (checks.check_first_parting, "logits"): (other_logits, "compare the best tokens"),
    (checks.check_first_parting, "last"): (last, "the first is asked for"),
    (checks.check_first_parting, "0 for none"): (
        lambda ours, theirs: parting(ours, theirs) or 0,
        "return None, not 0",
    ),
    (checks.check_first_parting, "no return"): (lambda ours, theirs: None, "is there a `return`"),
    (checks.check_first_parting, "constant"): (lambda ours, theirs: 2, "gives 2"),
    (checks.check_first_parting, "raises"): (lambda ours, theirs: 1 // 0, "ZeroDivisionError"),
    (checks.check_forced_at_once, "right"): (at_once, RIGHT),
    (checks.check_forced_at_once, "every row"): (every_row, "need 3 rows of logits, [3, 32]"),
    (checks.check_forced_at_once, "one late"): (
        lambda model, prompt, reply: every_row(model, prompt, reply)[prompt.shape[1] :],
        "one position before",
    ),
    (checks.check_forced_at_once, "no prompt"): (
        lambda model, prompt, reply: every_row(model, reply, reply[:, :0]),
        "logits of other positions",
    ),
    (checks.check_forced_at_once, "words"): (lambda *_: "logits", "return a tensor, not 'logits'"),
    (checks.check_forced_at_once, "raises"): (lambda *_: 1 // 0, "ZeroDivisionError"),
}


@pytest.mark.parametrize(("check", "name"), TABLE, ids=lambda part: getattr(part, "__name__", part))
def test_the_check_gives_the_answer_that_fits(check, name):
    learners, expected = TABLE[check, name]
    said = check(learners)
    assert said == RIGHT if expected == RIGHT else expected in said


@pytest.mark.parametrize("check", dict.fromkeys(check for check, _ in TABLE))
def test_an_untouched_cell_is_untried(check):
    assert check(...) == UNTRIED
