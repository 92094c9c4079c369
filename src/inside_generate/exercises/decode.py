"""The checks of the exercises in `08_decode`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from inside_generate.exercises.checking import RIGHT, UNTRIED, answer, attempt, check_table
from inside_generate.loop import cached_length, prefill


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
    if error or result is ...:
        return answer(error) if error else UNTRIED
    found = [int(token) for token in torch.as_tensor(result).flatten()]
    expected = _uncached_ids(model, inputs["input_ids"], steps + 1)
    if found == expected[1:]:
        return answer("token 1, the one that prefill gives, is missing")
    if found == expected[:-1]:
        return answer(f"one token too few: prefill gives one, and {steps} steps give {steps} more")
    return answer(
        None if found == expected else f"the uncached loop gives {expected}, yours {found}"
    )


@torch.inference_mode()
def _uncached_ids(model: PreTrainedModel, ids: torch.Tensor, count: int) -> list[int]:
    """Return greedy ids by the slow way: everything again for each token."""
    length = ids.shape[1]
    for _ in range(count):
        logits = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[:, -1]
        ids = torch.cat([ids, logits.argmax(dim=-1, keepdim=True)], dim=-1)
    return ids[0, length:].tolist()


def check_branch(function: Any, model: PreTrainedModel, inputs: Mapping[str, torch.Tensor]) -> str:
    """Check ``function(model, step, mask, token_ids)``: a decode step that leaves ``step`` whole.

    ``step`` is a finished prefill; the function returns the logits, [1, V], after ``token_ids``.
    """
    if function is ...:
        return UNTRIED
    mask = inputs["attention_mask"]
    step = prefill(model, inputs)
    length = cached_length(step.cache)
    best = step.logits.topk(2).indices.T[:, :, None]  # two candidates, each [1, 1]
    for token_ids in best:
        logits, error = attempt(function, model, step, mask, token_ids)
        if logits is ...:
            return UNTRIED
        if error:
            return answer(f"{error}. Does the first branch leave the cache as it was?")
        if cached_length(step.cache) != length:
            return answer(
                "your branch has written into the cache that the other one needs: copy it"
            )
        ids = torch.cat([inputs["input_ids"], token_ids], dim=-1)
        if _greedy_id(logits) != _uncached_ids(model, ids, 1)[0]:
            return answer(f"after {token_ids.tolist()} another token follows: does the mask grow?")
    return RIGHT


def _greedy_id(logits: Any) -> int | None:
    return int(logits.argmax()) if isinstance(logits, torch.Tensor) else None
