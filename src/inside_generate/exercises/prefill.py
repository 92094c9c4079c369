"""The checks of the exercises in `05_prefill`."""

from __future__ import annotations

from typing import Any

import torch

from inside_generate.exercises.checking import UNTRIED, answer, attempt, check_table


def check_logits_shape(function: Any) -> str:
    """Check ``function(B, L, V)``: the shape of the logits of a whole prefill."""
    cases = {sizes: sizes for sizes in ((1, 35, 151936), (3, 7, 49152), (2, 1, 10))}
    return check_table(
        function,
        cases,
        {
            "that is the shape after the last position was taken; before it there is one row of "
            "scores for each prompt position": (lambda batch, _, vocabulary: (batch, vocabulary)),
            "the rows of a batch do not share their logits: where is B?": (
                lambda _, length, vocabulary: (length, vocabulary)
            ),
        },
    )


def check_next_token(function: Any) -> str:
    """Check ``function(all_logits)``: [B, L, V] → the greedy next id of each row, [B]."""
    if function is ...:
        return UNTRIED
    logits = torch.zeros(2, 3, 5)
    logits[0, -1, 4] = logits[1, -1, 2] = 1.0
    logits[:, 0, 1] = 9.0  # higher than all, at a position that predicts what is known already
    result, error = attempt(function, logits)
    if error or result is ...:
        return answer(error) if error else UNTRIED
    found = torch.as_tensor(result).flatten().tolist()
    if found == [1, 1]:
        return answer("you took the first position; which one scores the token after the prompt?")
    if len(found) != 2:
        return answer(
            f"there are 2 rows and so 2 ids, but you return {found}: argmax over which axis?"
        )
    return answer(None if found == [4, 2] else f"expected one id a row, [B]; you return {found}")


def check_most_surprising(function: Any) -> str:
    """Check ``function(all_logits, input_ids)``: the index of the least expected prompt token.

    Shapes [1, L, V] and [1, L] → an int in 1 … L − 1.
    """
    if function is ...:
        return UNTRIED
    input_ids = torch.tensor([[3, 1, 2, 0]])
    logits = torch.zeros(1, 4, 5)
    for position, follows, score in ((0, 1, 5.0), (1, 2, -5.0), (2, 0, 5.0)):
        logits[0, position, follows] = score
    logits[0, 1, 1] = 3.0
    result, error = attempt(function, logits, input_ids)
    if error or result is ...:
        return answer(error) if error else UNTRIED
    if int(result) == 1:
        return answer(
            "position i scores token i + 1: you name the position, not the token it missed"
        )
    return answer(
        None if int(result) == 2 else f"you return {result}; token 2 is the least expected"
    )
