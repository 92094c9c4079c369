"""The checks of the chapter on broken loops accept right answers and name likely mistakes."""

import pytest
import torch
from tests.tiny import random_inputs

from inside_generate import append_one, decode_step, prefill
from inside_generate.exercises import breaking_it as checks
from inside_generate.exercises import mystery_loops
from inside_generate.exercises.checking import RIGHT, UNTRIED
from inside_generate.exercises.decode import greedy_ids
from inside_generate.rounding import logit_tolerance

STEP = ("mask too short", "wrong position", "token fed twice", "prompt fed again")
STEP += ("cache not passed on",)


@pytest.fixture
def inputs():
    return random_inputs(6)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (set(STEP), RIGHT),
        (list(STEP), RIGHT),
        (frozenset(STEP), RIGHT),
        (set(STEP[1:]), "more of the faults"),
        ({*STEP, "turn forged"}, "wrong on both"),
        ({*STEP, "EOS missed"}, "not what is done with them"),
        ({*STEP, "repetition penalty left on"}, "not what is done with them"),
        ({"mask"}, "those in FAULTS"),
        (set(), "those in FAULTS"),
        ("mask too short", "names out of FAULTS"),
        (..., UNTRIED),
    ],
)
def test_the_check_of_what_a_comparison_finds(names, said):
    assert said in checks.check_found(names)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["mask too short", "token fed twice", "wrong position"], RIGHT),
        (("mask too short", "token fed twice", "wrong position"), RIGHT),
        (["wrong position", "token fed twice", "wrong position"], "the first loop"),
        (["mask too short", "prompt fed again", "wrong position"], "the second loop"),
        (["mask too short", "token fed twice", "mask too short"], "the third loop"),
        (["mask too short", "token fed twice"], "three names in the order"),
        ({"mask too short", "token fed twice", "wrong position"}, "three names in the order"),
        (["mask", "cache", "position"], "those in FAULTS"),
        ([["mask too short"]], "those in FAULTS"),
        (7, "names out of FAULTS"),
        (..., UNTRIED),
    ],
)
def test_the_check_of_the_mystery_loops(names, said):
    assert said in checks.check_faults(names)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda ids, mask, held: ids[1] == 1 and mask == (ids[0], held + 1), RIGHT),
        (lambda ids, mask, held: ids[1] == 1 and mask == (ids[0], held), "counts it already"),
        (lambda ids, mask, held: mask == (ids[0], held + 1), "how many tokens of a row"),
        (lambda ids, mask, held: mask == (ids[0], held + ids[1]), "no decode step"),
        (lambda ids, mask, held: ids[1] == 1 and mask[1] == held + 1, "as many rows"),
        (lambda ids, mask, held: ids == (1, 1) and mask == (1, held + 1), "more than one row"),
        (lambda ids, mask, held: ids[1] == 1, "is the mask looked at"),
        (lambda ids, mask, held: True, "your function gives True"),
        (lambda ids: True, "TypeError"),
        (..., UNTRIED),
    ],
)
def test_the_check_of_the_line_before_the_step(function, said):
    assert said in checks.check_step_fits(function)


def comparing(tokens, same):
    """A test of decode steps: some tokens through the step, each row against an uncached one."""

    def test(step, model, inputs):
        cache, text = prefill(model, inputs).cache, inputs
        for _ in range(tokens):
            token_ids = text["input_ids"][:, -1:]
            text = {name: torch.cat([x, x[:, -1:]], dim=-1) for name, x in text.items()}
            logits = step(token_ids, cache, text["attention_mask"])
            if not same(logits, prefill(model, text).logits):
                return False
        return True

    return test


def within_rounding(found, right):
    return (found - right).abs().max() <= logit_tolerance(right.dtype)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (comparing(3, within_rounding), RIGHT),
        (comparing(3, lambda x, y: bool(within_rounding(x, y))), RIGHT),
        (comparing(1, within_rounding), "try more than one"),
        (comparing(3, lambda x, y: torch.equal(x.round(decimals=4), y)), "refused"),
        (comparing(3, lambda x, y: torch.allclose(x, y, rtol=0, atol=1e-5)), "logit_tolerance"),
        (comparing(3, lambda x, y: torch.equal(x.argsort(), y.argsort())), "compare the logits"),
        (lambda step, model, inputs: True, "leaves out the new token"),
        (lambda step, model, inputs: False, "a right step is refused"),
        (lambda step, model, inputs: 7, "return True or False"),
        (lambda step: True, "TypeError"),
        (lambda *_: ..., UNTRIED),
        (..., UNTRIED),
    ],
)
def test_the_check_of_a_test_for_decode_steps(function, said, model, inputs):
    assert said in checks.check_test(function, model, inputs)


def test_a_step_that_feeds_twice_is_not_let_pass(model, inputs):
    def one_cached_token_a_step(step, model, inputs):
        cache = prefill(model, inputs).cache
        mask, token_ids = append_one(inputs["attention_mask"]), inputs["input_ids"][:, -1:]
        right = decode_step(model, token_ids, prefill(model, inputs).cache, mask).logits
        shorter = mask[:, :-1]
        short = model(token_ids, attention_mask=shorter, cache=prefill(model, inputs).cache)
        found = step(token_ids, cache, mask)
        return within_rounding(found, right) or not within_rounding(found, short.logits[:, -1])

    assert "feeds its token twice" in checks.check_test(one_cached_token_a_step, model, inputs)


# --- the mystery loops ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["first_loop", "second_loop", "third_loop"])
def test_a_mystery_loop_gives_one_id_more_than_steps_and_begins_rightly(name, model, inputs):
    ids = getattr(mystery_loops, name)(model, inputs, 3)
    assert len(ids) == 4
    assert ids[0] == greedy_ids(model, inputs, 1)[0]


@pytest.mark.parametrize(
    ("name", "masks", "places"),
    [
        ("first_loop", [6, 6, 7], [None, None]),
        ("second_loop", [6, 7, 8, 9, 10], [None] * 4),
        ("third_loop", [6, 7, 8], [6, 6]),
    ],
)
def test_a_mystery_loop_has_its_one_fault(name, masks, places, model, inputs, forwards):
    calls = forwards(model)
    getattr(mystery_loops, name)(model, inputs, 2)
    assert [call.attention_mask.shape[1] for call in calls] == masks
    assert [call.input_ids.shape[1] for call in calls] == [6] + [1] * (len(masks) - 1)
    found = [None if x.position_ids is None else x.position_ids.item() for x in calls[1:]]
    assert found == places
