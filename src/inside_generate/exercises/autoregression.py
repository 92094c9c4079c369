"""The checks of the exercises in `02_autoregression`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    number,
    real_tensor,
    shown,
    whole_numbers,
)


def check_tokens_read(function: Any) -> str:
    """Check ``function(L, T)``: tokens read in all by T uncached forwards."""
    cases = {
        (length, tokens): tokens * length + tokens * (tokens - 1) // 2
        for length in (1, 8, 35)
        for tokens in (1, 2, 13)
    }
    return check_table(
        function,
        cases,
        {
            "that is right while the input stays as long as the prompt; it grows": (
                lambda length, tokens: tokens * length
            ),
            "a little too many: is the token just picked part of its own input?": (
                lambda length, tokens: tokens * length + tokens * (tokens + 1) // 2
            ),
            "that is the length of the last input; the forwards before it count too": (
                lambda length, tokens: length + tokens - 1
            ),
            "that is prompt and answer once; without a cache everything is read again": (
                lambda length, tokens: length + tokens
            ),
        },
    )


def check_causal_mask(function: Any) -> str:
    """Check ``function(n)``: the mask M, [n, n], 0 on and below the diagonal, −∞ above."""
    if function is ...:
        return UNTRIED
    for size in (3, 5):
        mask, error = attempt(function, size)
        if mask is ...:
            return UNTRIED
        hint = error or _mask_hint(mask, size)
        if hint:
            return answer(hint)
    return RIGHT


def _mask_hint(mask: Any, size: int) -> str | None:
    found = real_tensor(mask)
    if found is None or tuple(found.shape) != (size, size):
        instead = shown(mask) if found is None else list(found.shape)
        return f"return a tensor [{size}, {size}], not {instead}"
    right = torch.full((size, size), float("-inf"), dtype=torch.float64).triu(diagonal=1)
    if not found.is_floating_point():
        return "M is added to the scores: it needs the numbers 0 and −∞, not yes and no"
    found = found.double()
    if bool(found.isnan().any()):
        return "some cells are not a number (NaN): 0 times infinity has no value"
    if torch.equal(found, right.T):
        return "the other way round: a row is the position that looks, and it may not look ahead"
    if torch.equal(found, torch.full_like(right, float("-inf")).triu()):
        return "a position may look at itself: the diagonal is 0"
    if torch.equal(found, right.isinf().double()) or torch.equal(found, (right == 0).double()):
        return "a 1 or a 0 does not keep softmax from looking; what number makes its weight 0?"
    return None if torch.equal(found, right) else f"for n = {size} M is not {shown(found.tolist())}"


def check_log_probability(function: Any) -> str:
    """Check ``function(all_logits, input_ids)``: log P of a text, given its first token."""
    if function is ...:
        return UNTRIED
    for length, seed in ((4, 0), (7, 1)):
        random = torch.Generator().manual_seed(seed)
        logits = 2 * torch.randn(1, length, 9, generator=random)
        ids = torch.randint(0, 9, (1, length), generator=random)
        result, error = attempt(function, logits.clone(), ids.clone())
        if result is ...:
            return UNTRIED
        hint = error or _log_probability_hint(result, logits, ids)
        if hint:
            return answer(hint)
    return RIGHT


def _log_probability_hint(result: Any, logits: torch.Tensor, ids: torch.Tensor) -> str | None:
    parts = real_tensor(result)
    found = number(parts)
    if found is None:
        if parts is None or parts.numel() == 1:
            return f"return one number, not {shown(result)}"
        return f"one number for the whole text, but you return {parts.numel()}: add them up"
    log_p = logits.double()[0].log_softmax(-1)
    given = log_p[:-1].gather(1, ids[0, 1:, None])[:, 0]
    mistakes = {
        "a row scores the token after it: shift the ids by one against the logits": (
            log_p.gather(1, ids[0, :, None]).sum()
        ),
        "those are raw logits; which function makes log-probabilities of a row?": (
            logits.double()[0, :-1].gather(1, ids[0, 1:, None]).sum()
        ),
        "that is the probability; its logarithm is asked for": given.sum().exp(),
        "that is the sum of the probabilities; they multiply, so their logarithms add up": (
            given.exp().sum()
        ),
        "that is the mean of the log-probabilities; the text has their sum": given.mean(),
        "the sign is turned: a log-probability is never above 0": -given.sum(),
    }
    if math.isclose(found, given.sum(), rel_tol=1e-3):
        return None
    for hint, value in mistakes.items():
        if math.isclose(found, value, rel_tol=1e-3):
            return hint
    return f"the log-probability is {given.sum():.4f}, you return {found:.4f}"


def check_first_moved(function: Any) -> str:
    """Check ``function(forward, input_ids, k, new_id)``: the first position whose logits change."""
    if function is ...:
        return UNTRIED
    ids = torch.tensor([[1, 2, 3, 4, 5, 6]])
    for reach in (0, 1, 6, 0):  # how far ahead a position looks
        for k, new_id in ((2, 0), (4, 0), (4, 7)):
            kept = ids.clone()
            result, error = attempt(function, _looking_ahead(reach), kept, k, new_id)
            if result is ...:
                return UNTRIED
            ahead = max(k - reach, 0)
            seen_ahead = bool((int(ids[0, k]) - new_id) % 2)
            hint = error or _first_moved_hint(result, ahead if seen_ahead else k, ahead, k)
            if not torch.equal(kept, ids):
                hint = "the ids that you were given have changed: work on a copy"
            if hint:
                return answer(hint)
    return RIGHT


def _looking_ahead(reach: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a model whose position i sees ids up to i, and the odd ones up to i + ``reach``."""

    def forward(input_ids: torch.Tensor) -> torch.Tensor:
        length = input_ids.shape[1]
        sees = torch.ones(length, length).tril(diagonal=reach)  # [n, n]
        odd = (input_ids % 2).float() @ sees.T  # how many there are, up to i + reach
        halves = (input_ids // 2).float() @ torch.ones(length, length).tril().T
        return torch.stack([odd, odd - 2 * halves, halves], dim=-1)  # [1, n, 3]

    return forward


def _first_moved_hint(result: Any, right: int, ahead: int, k: int) -> str | None:
    found = whole_numbers(result)
    if found is None or len(found) != 1:
        return f"return one position, not {shown(result)}"
    if found[0] == right:
        return None
    if found[0] == k:
        return f"you return k = {k}, but this model looks ahead: measure which rows change"
    if found[0] == ahead:
        return "another id at k would move that position: is it `new_id` that you put there?"
    return f"the first position that changes is {right}, you return {shown(found[0])}"
