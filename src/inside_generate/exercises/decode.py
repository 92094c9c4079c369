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
    real_tensor,
    shown,
    whole_numbers,
)
from inside_generate.loop import (
    Forward,
    append_one,
    cached_keys_and_values,
    cached_length,
    decode_step,
    number_of_cached_layers,
    prefill,
)
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
    steps, given = 4, {name: tensor.clone() for name, tensor in inputs.items()}
    result, error = attempt(function, model, given, steps)
    if result is ...:
        return UNTRIED
    if error and "attention_mask must be" in error:
        return answer(f"the mask has to grow before the step. {error}")
    found = whole_numbers(result)
    if error or found is None:
        return answer(error or f"return a list of ids, not {shown(result)}")
    if not bool(prefill(model, inputs).logits.isfinite().all()):
        return answer("this model's logits are no numbers: nothing can be checked with it")
    expected = greedy_ids(model, inputs, steps + 1)
    if found == expected[1:]:
        return answer("token 1, the one that prefill gives, is missing")
    if found == expected[:-1]:
        return answer(f"one token too few: prefill gives one, and {steps} steps give {steps} more")
    wrong = f"the ids should be {expected}, yours are {shown(found)}"
    return answer(None if found == expected else wrong)


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
        given, own_mask = copy.deepcopy(step), mask.clone()
        result, error = attempt(function, model, given, own_mask, token_ids.clone())
        if result is ...:
            return UNTRIED
        if not _same_cache(given, step):
            return answer(
                "your branch has written into the cache that the other one needs: copy it"
            )
        if error:
            return answer(error)
        cache = copy.deepcopy(step.cache)
        right = decode_step(model, token_ids, cache, append_one(mask)).logits
        logits = real_tensor(result)
        if logits is None or logits.shape != right.shape:
            return answer(f"return the logits alone, a tensor {list(right.shape)}")
        difference = (logits.double() - right.cpu().double()).abs().max()
        if not difference <= logit_tolerance(model.dtype):  # NaN is no small difference either
            return answer(f"the logits after {token_ids.tolist()} are others: does the mask grow?")
    return RIGHT


def _same_cache(given: Forward, kept: Forward) -> bool:
    """Return whether the keys and values of every layer are those that were kept."""
    try:
        if cached_length(given.cache) != cached_length(kept.cache):
            return False
        return all(
            torch.equal(found, right)
            for layer in range(number_of_cached_layers(kept.cache))
            for found, right in zip(
                cached_keys_and_values(given.cache, layer),
                cached_keys_and_values(kept.cache, layer),
                strict=True,
            )
        )
    except Exception:  # what a learner has left of the cache may not be one any more
        return False
