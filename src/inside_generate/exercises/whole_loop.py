"""The checks of the exercises in `13_the_whole_loop`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from inside_generate.cache import kv_cache_bytes, kv_heads
from inside_generate.exercises.checking import UNTRIED, answer, attempt, check_table


def check_stop_reason(value: Any) -> str:
    """Check the prediction: the stop reason when the token at the limit is EOS."""
    if value is ...:
        return UNTRIED
    if value == "max_new_tokens":
        return answer("both are true at once; which of them says that the answer is complete?")
    return answer(
        None if value == "eos" else f"a stop reason is 'eos' or 'max_new_tokens', not {value!r}"
    )


def check_run_kv_bytes(function: Any, config: Any) -> str:
    """Check ``function(config, L, T)``: bytes of KV at the end of a run, in 2-byte numbers."""
    if function is ...:
        return UNTRIED
    per_token = kv_cache_bytes(config, 1)
    cases = {(n, t): per_token * (n + t - 1) for n in (8, 35) for t in (1, 13)}
    share = config.num_attention_heads // kv_heads(config)  # query heads that read one KV head
    return check_table(
        lambda length, tokens: function(config, length, tokens),
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
    """Check ``function(model, prompt_ids, count)``: greedy ids without any cache."""
    if function is ...:
        return UNTRIED
    result, error = attempt(function, model, list(prompt_ids), len(expected))
    if error or result is ...:
        return answer(error) if error else UNTRIED
    found = [int(token) for token in torch.as_tensor(result).flatten()]
    if found == [*prompt_ids, *expected]:
        return answer("return the new ids only, without the prompt")
    if len(found) != len(expected):
        return answer(f"{len(expected)} ids were asked for, you return {len(found)}")
    first = next(
        (i for i, pair in enumerate(zip(found, expected, strict=True)) if len(set(pair)) > 1), None
    )
    return answer(
        None if first is None else f"the ids part at token {first + 1}: is it in the next input?"
    )
