"""The checks of the exercises in `13_the_whole_loop`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from inside_generate.cache import kv_cache_bytes, kv_heads
from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    same,
    shown,
    whole_numbers,
)
from inside_generate.rounding import logit_tolerance


def check_stop_reason(value: Any) -> str:
    """Check the prediction: the stop reason when the token at the limit is EOS."""
    if value is ...:
        return UNTRIED
    if same(value, "max_new_tokens"):
        return answer("both are true at once; which of them says that the answer is complete?")
    wrong = f"a stop reason is 'eos' or 'max_new_tokens', not {shown(value)}"
    return answer(None if same(value, "eos") else wrong)


def check_run_kv_bytes(function: Any, config: Any) -> str:
    """Check ``function(config, L, T)``: bytes of KV at the end of a run, in 2-byte numbers."""
    if function is ...:
        return UNTRIED
    per_token = kv_cache_bytes(config, 1)
    cases = {(n, t): per_token * (n + t - 1) for n in (8, 35) for t in (1, 13)}
    share = config.num_attention_heads // kv_heads(config)  # query heads that read one KV head
    return check_table(
        (lambda length, tokens: function(config, length, tokens))
        if callable(function)
        else function,
        cases,
        {
            "one token too many: the last one picked is never an input": (
                lambda length, tokens: per_token * (length + tokens)
            ),
            "keys and values are two tensors; you count one": (
                lambda length, tokens: per_token // 2 * (length + tokens - 1)
            ),
            "count KV heads, not query heads: that is what grouped-query attention saves": (
                lambda length, tokens: per_token * share * (length + tokens - 1)
            ),
        },
    )


def check_uncached_generate(
    function: Any, model: PreTrainedModel, prompt_ids: Sequence[int], expected: Sequence[int]
) -> str:
    """Check ``function(model, prompt_ids, count)``: greedy ids without any cache.

    ``expected`` are the ids of the cached loop. Where the two part at a near tie, both are right.
    """
    if function is ...:
        return UNTRIED
    result, error = attempt(function, model, list(prompt_ids), len(expected))
    if result is ...:
        return UNTRIED
    found = whole_numbers(result)
    if error or found is None:
        return answer(error or f"return a list of ids, not {shown(result)}")
    if found == [*prompt_ids, *expected]:
        return answer("return the new ids only, without the prompt")
    if len(found) != len(expected):
        return answer(f"{len(expected)} ids were asked for, you return {len(found)}")
    for number, (ours, theirs) in enumerate(zip(expected, found, strict=True)):
        if ours != theirs:
            near = _is_near_tie(model, [*prompt_ids, *expected[:number]], theirs)
            part = f"the ids part at token {number + 1}: are all ids so far in the next input?"
            return answer(None if near else part)
    return RIGHT


@torch.inference_mode()
def _is_near_tie(model: PreTrainedModel, ids: list[int], choice: int) -> bool:
    """Return whether ``choice`` is within rounding of the best uncached logit after ``ids``."""
    input_ids = torch.tensor([ids], device=model.device)
    logits = model(input_ids=input_ids, use_cache=False, logits_to_keep=1).logits[0, -1]
    if not 0 <= choice < len(logits):
        return False
    return bool(logits.max() - logits[choice] <= logit_tolerance(model.dtype))
