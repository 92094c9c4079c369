"""The checks of the exercises in `05_prefill`."""

from __future__ import annotations

from typing import Any

import torch

from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    real_tensor,
    same,
    shown,
    whole_numbers,
)


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
    for batch, length in ((2, 3), (3, 5)):
        hint = _next_token_hint(function, batch, length)
        if hint:
            return UNTRIED if hint == UNTRIED else answer(hint)
    return RIGHT


def _next_token_hint(function: Any, batch: int, length: int) -> str | None:
    logits = torch.zeros(batch, length, 7)
    best = [(row + length) % 5 + 2 for row in range(batch)]
    logits[range(batch), -1, best] = 1.5  # no whole number: a score is not taken for an id
    # Higher than all, at positions that predict what is known already.
    logits[:, 0, 1], logits[:, 1:-1, 0] = 9.0, 5.0
    result, error = attempt(function, logits.clone())
    if result is ...:
        return UNTRIED
    found = whole_numbers(result)
    if error or found is None:
        return error or f"return ids, not {shown(result)}"
    if found == [1] * batch:
        return "you took the first position; which one scores the token after the prompt?"
    if len(found) != batch:
        rows = f"there are {batch} rows and so {batch} ids"
        return f"{rows}, but you return {shown(found)}: which axis?"
    if found == [0] * batch:
        return "a position before the last one has won; what it predicts is in the prompt already"
    if not same(result, found):
        table = real_tensor(result)
        shape = shown(result) if table is None else list(table.shape)
        return f"one id a row, shape [{batch}], not {shape}"
    return None if found == best else f"the best next tokens are {best}, you return {shown(found)}"


def check_most_surprising(function: Any) -> str:
    """Check ``function(all_logits, input_ids)``: the index of the least expected prompt token.

    Shapes [1, L, V] and [1, L] → an int in 1 … L − 1.
    """
    if function is ...:
        return UNTRIED
    # Probabilities given to the tokens that follow: low at one position. In the first list each
    # usual mistake names another index.
    first = [0.7, 0.1, 0.75, 0.9, 0.4, 0.8]
    for given in (first, [0.1, 0.9, 0.8], [0.9, 0.8, 0.7, 0.05], [0.5, 0.6, 0.2, 0.9]):
        ids, logits = _prompt_with(given)
        result, error = attempt(function, logits.clone(), ids.clone())
        if result is ...:
            return UNTRIED
        found, right = whole_numbers(result), given.index(min(given)) + 1
        if error or found is None or len(found) != 1:
            return answer(error or f"return one index, not {shown(result)}")
        if found[0] != right:
            hint = _surprise_hint(found[0], given, logits, ids)
            return answer(hint or f"you return {shown(found[0])}; the least expected is {right}")
    return RIGHT


def _surprise_hint(
    found: int, given: list[float], logits: torch.Tensor, ids: torch.Tensor
) -> str | None:
    """Return what is behind a wrong index; of two reasons for the same index, the later one."""
    lowest_logit = int(logits[0, :-1].gather(1, ids[0, 1:, None]).argmin())
    most_expected = given.index(max(given)) + 1
    hints = {
        0: "the first token is out of the race; or is 0 an id? Return the token's index",
        most_expected - 1: "row i scores token i + 1: in which row do you look a token up?",
        most_expected: "that token was the most expected one",
        lowest_logit + 1: "you compare logits of different rows; probabilities can be compared",
        given.index(min(given)): "position i scores token i + 1: you name the position, not the "
        "token",
    }
    return hints.get(found)


def _prompt_with(given: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids [1, L] and logits [1, L, V] in which token i + 1 has probability ``given[i]``.

    Each row is shifted by a number of its own, which softmax does not see: the lowest logit does
    not stand where the lowest probability does.
    """
    ids = torch.arange(len(given) + 1)[None] % 2
    p = torch.tensor([*given, 0.5])
    follows = torch.cat([ids[0, 1:], ids[0, :1]])
    logits = torch.stack([1 - p, p], dim=-1).log()  # column 1 is the following token's, for now
    logits = torch.where(follows[:, None] == 1, logits, logits.flip(-1))
    likely = int(p[:-1].argsort()[-2])
    logits[likely] -= 9.0
    return ids, logits[None]
