"""The checks of the exercises, chapter by chapter. ``checking.py`` says how a check answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from inside_generate.cache import kv_cache_bytes, kv_heads
from inside_generate.checking import RIGHT, UNTRIED, answer, attempt, check_table
from inside_generate.loop import cached_length, prefill

# --- 00 The whole path ----------------------------------------------------------------------------


def check_forward_passes(function: Any) -> str:
    """Check ``function(T)``: the forward passes that T tokens need, as (prefill, decode)."""
    cases = {(tokens,): (1, tokens - 1) for tokens in (1, 2, 13, 64)}
    return check_table(
        function,
        cases,
        {
            "count again: token 1 comes out of prefill, so it needs no decode forward": (
                lambda tokens: (1, tokens)
            ),
            "prefill reads the whole prompt in one forward, however long it is": (
                lambda tokens: (tokens, tokens - 1)
            ),
        },
    )


def check_should_stop(function: Any) -> str:
    """Check ``function(generated_ids, eos_ids, max_new_tokens)``: whether the loop ends now."""
    eos = frozenset({7, 9})
    cases = {
        ((5,), eos, 4): False,
        ((7,), eos, 4): True,
        ((5, 9), eos, 4): True,
        ((7, 5), eos, 4): False,
        ((5, 5, 5), eos, 4): False,
        ((5, 5, 5, 5), eos, 4): True,
        ((5, 5, 5, 5), frozenset(), 4): True,
        ((5, 5, 5, 5, 5), eos, 4): True,
    }
    return check_table(
        function,
        cases,
        {
            "the limit is missing: a model that never says EOS would go on for ever": (
                lambda ids, eos, _: ids[-1] in eos
            ),
            "EOS is missing: the loop would go on after the model has ended its turn": (
                lambda ids, _, limit: len(ids) >= limit
            ),
            "the limit is one too late: `max_new_tokens` counts the tokens that may exist": (
                lambda ids, eos, limit: ids[-1] in eos or len(ids) > limit
            ),
        },
    )


# --- 05 Prefill -----------------------------------------------------------------------------------


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


# --- 08 Decode ------------------------------------------------------------------------------------


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


# --- 13 The whole loop ----------------------------------------------------------------------------


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
