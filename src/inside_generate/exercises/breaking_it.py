"""The checks of the exercises in `17_breaking_it`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import Cache, PreTrainedModel

from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    shown,
    truth,
)
from inside_generate.exercises.mystery_loops import (
    DecodeStep,
    step_that_feeds_twice,
    step_that_stands_still,
    step_with_short_mask,
)
from inside_generate.rounding import logit_tolerance

FAULTS = (
    "generation prompt missing",
    "turn forged",
    "mask too short",
    "wrong position",
    "token fed twice",
    "prompt fed again",
    "cache not passed on",
    "EOS missed",
    "repetition penalty left on",
    "one id decoded at a time",
)
IN_THE_IDS = frozenset(FAULTS[:2])
IN_THE_STEP = frozenset(FAULTS[2:7])
AFTER_THE_LOGITS = frozenset(FAULTS[7:])

WHERE_TO_LOOK = (
    "the first loop: hold the mask's length against what the cache held and what came in",
    "the second loop: by how many tokens does its cache grow for each token of the answer?",
    "the third loop: read the positions from one forward to the next",
)


def check_found(names: Any) -> str:
    """Check a set of names: the faults that a comparison with uncached logits finds."""
    if names is ...:
        return UNTRIED
    found = _names(names)
    if isinstance(found, str):
        return answer(found)
    if found & IN_THE_IDS:
        return answer(
            "both sides are given the same ids: what is wrong with the prompt is wrong on both"
        )
    if found & AFTER_THE_LOGITS:
        return answer(
            "logits are compared, not what is done with them: one of yours leaves them as they are"
        )
    missing = "no wrong name among them, but more of the faults change what a step gives"
    return answer(missing if set(found) < IN_THE_STEP else None)


def check_faults(names: Any) -> str:
    """Check the three names of the mystery loops' faults, in order."""
    if names is ...:
        return UNTRIED
    found = _names(names)
    if isinstance(found, str):
        return answer(found)
    given, right = list(names), ("mask too short", "token fed twice", "wrong position")
    if len(given) != len(right) or isinstance(names, set | frozenset):
        return answer("a list of three names in the order of the loops, please")
    looks = zip(given, right, WHERE_TO_LOOK, strict=True)
    wrong = [where for name, fault, where in looks if name != fault]
    return answer(wrong[0] if wrong else None)


def _names(value: Any) -> frozenset[str] | str:
    """Return the names of faults in a learner's collection, or a hint where it holds others."""
    if not isinstance(value, set | frozenset | list | tuple):
        return f"this asks for names out of FAULTS, not for {shown(value)}"
    strangers = [name for name in value if not (isinstance(name, str) and name in FAULTS)]
    if strangers or not value:
        return f"the names are those in FAULTS, not {shown(strangers[0] if strangers else value)}"
    return frozenset(value)


def check_step_fits(function: Any) -> str:
    """Check ``function(ids_shape, mask_shape, held)``: whether a decode step may run."""
    cases = {
        ((1, 1), (1, 9), 8): True,
        ((1, 1), (1, 8), 8): False,
        ((1, 1), (1, 10), 8): False,
        ((1, 9), (1, 9), 8): False,
        ((1, 9), (1, 9), 0): False,
        ((3, 1), (3, 6), 5): True,
        ((3, 1), (1, 6), 5): False,
        ((3, 5), (3, 6), 5): False,
        ((2, 1), (2, 4), 3): True,
    }
    return check_table(
        function,
        cases,
        {
            "the new token is to be seen too: the mask counts it already": (
                lambda ids, mask, held: ids[1] == 1 and mask == (ids[0], held)
            ),
            "how many tokens of a row may go in?": (
                lambda ids, mask, held: mask == (ids[0], held + 1)
            ),
            "the mask fits what goes in, but a whole prompt is no decode step": (
                lambda ids, mask, held: mask == (ids[0], held + ids[1])
            ),
            "a batch has a mask with as many rows as it has": (
                lambda ids, mask, held: ids[1] == 1 and mask[1] == held + 1
            ),
            "there may be more than one row": (
                lambda ids, mask, held: ids == (1, 1) and mask == (1, held + 1)
            ),
            "is the mask looked at?": lambda ids, *_: ids[1] == 1,
        },
    )


def check_test(function: Any, model: PreTrainedModel, inputs: Mapping[str, torch.Tensor]) -> str:
    """Check ``function(step, model, inputs)``: True for a right decode step, False for others."""
    if function is ...:
        return UNTRIED
    for hint, step, right in _steps(model, inputs):
        given = {name: tensor.clone() for name, tensor in inputs.items()}
        result, error = attempt(function, step, model, given)
        if result is ...:
            return UNTRIED
        said = truth(result)
        if error or said is None:
            return answer(error or f"return True or False, not {shown(result)}")
        if said is not right:
            return answer(hint)
    return RIGHT


def _steps(
    model: PreTrainedModel, inputs: Mapping[str, torch.Tensor]
) -> list[tuple[str, DecodeStep, bool]]:
    """Return decode steps: what to say where one is judged wrongly, the step, whether it is right.

    One differs from the right one by less than rounding may do; one leaves every best token as it
    is.
    """
    rounded = 0.1 * logit_tolerance(model.dtype)
    return [
        ("a right step is refused", _changed(model), True),
        (
            "a right step that rounds otherwise is refused: allow for `logit_tolerance`",
            _changed(model, add=rounded),
            True,
        ),
        (
            "a step passes whose mask leaves out the new token: compare with an uncached forward",
            step_with_short_mask(model),
            False,
        ),
        ("a step passes that feeds its token twice", step_that_feeds_twice(model), False),
        (
            "a step passes that goes wrong with its second token: try more than one",
            step_that_stands_still(model, inputs),
            False,
        ),
        (
            "a step passes that picks the right token from wrong logits: compare the logits",
            _changed(model, times=1.5),
            False,
        ),
    ]


def _changed(model: PreTrainedModel, times: float = 1.0, add: float = 0.0) -> DecodeStep:
    """Return a right step whose logits are then changed, in a way that keeps their order."""

    @torch.inference_mode()
    def step(token_ids: torch.Tensor, cache: Cache, mask: torch.Tensor) -> torch.Tensor:
        logits = model(input_ids=token_ids, attention_mask=mask, cache=cache).logits[:, -1]
        return times * logits + add

    return step
