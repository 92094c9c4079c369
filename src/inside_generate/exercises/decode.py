"""The checks of the exercises in `08_decode`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    whole_numbers,
)
from inside_generate.loop import append_one, cached_length, decode_step, prefill
from inside_generate.rounding import logit_tolerance
from inside_generate.sampling import greedy


def check_cache_length(function: Any) -> str:
    """Check ``function(L, T)``: tokens in the cache when T tokens have been generated."""
    cases = {
        (length, tokens): length + tokens - 1 for length in (1, 8, 35) for tokens in (1, 2, 13)
    }
    return check_table(
        function,
        cases,
        {
            "one too many: has the last token picked ever been an input?": (
                lambda length, tokens: length + tokens
            ),
            "the prompt is in the cache too": (lambda _, tokens: tokens - 1),
        },
    )


def check_decode_loop(
    function: Any, model: PreTrainedModel, inputs: Mapping[str, torch.Tensor]
) -> str:
    """Check ``function(model, inputs, steps)``: the ids of prefill and ``steps`` decode steps."""
    if function is ...:
        return UNTRIED
    steps = 4
    result, error = attempt(function, model, inputs, steps)
    if result is ...:
        return UNTRIED
    if error and "attention_mask must be" in error:
        return answer(f"the mask has to grow before the step. {error}")
    found, expected = whole_numbers(result), greedy_ids(model, inputs, steps + 1)
    if error or found is None:
        return answer(error or f"return a list of ids, not {result!r}")
    if found == expected[1:]:
        return answer("token 1, the one that prefill gives, is missing")
    if found == expected[:-1]:
        return answer(f"one token too few: prefill gives one, and {steps} steps give {steps} more")
    return answer(None if found == expected else f"the ids should be {expected}, yours are {found}")


def greedy_ids(model: PreTrainedModel, inputs: Mapping[str, torch.Tensor], count: int) -> list[int]:
    """Return the first ``count`` greedy ids of the course's own loop, EOS or not."""
    mask, step = inputs["attention_mask"], prefill(model, inputs)
    ids = [greedy(step.logits)]
    while len(ids) < count:
        mask = append_one(mask)
        step = decode_step(model, ids[-1][:, None], step.cache, mask)
        ids.append(greedy(step.logits))
    return torch.cat(ids).tolist()


def check_branch(function: Any, model: PreTrainedModel, inputs: Mapping[str, torch.Tensor]) -> str:
    """Check ``function(model, step, mask, token_ids)``: a decode step that leaves ``step`` whole.

    ``step`` is a finished prefill, ``mask`` the prompt's, [1, L]; ``token_ids`` is [1, 1]. The
    function returns the logits after it, [1, V].
    """
    if function is ...:
        return UNTRIED
    mask, step = inputs["attention_mask"], prefill(model, inputs)
    for token_ids in step.logits.topk(2).indices.T[:, :, None]:  # two candidates, each [1, 1]
        kept = copy.deepcopy(step.cache)
        logits, error = attempt(function, model, step, mask, token_ids)
        if logits is ...:
            return UNTRIED
        if cached_length(step.cache) != cached_length(kept):
            return answer(
                "your branch has written into the cache that the other one needs: copy it"
            )
        if error:
            return answer(error)
        right = decode_step(model, token_ids, kept, append_one(mask)).logits
        if tuple(getattr(logits, "shape", ())) != tuple(right.shape):
            return answer(f"return the logits alone, a tensor {list(right.shape)}")
        if (logits - right).abs().max() > logit_tolerance(model.dtype):
            return answer(f"the logits after {token_ids.tolist()} are others: does the mask grow?")
    return RIGHT
