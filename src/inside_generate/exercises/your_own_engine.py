"""The checks of the exercises in `a3_your_own_engine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from inside_generate.comparing.compare import compare_runs
from inside_generate.errors import InsideGenerateError
from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    plain,
    raised,
    real_tensor,
    shortened,
    shown,
)

Tensor = torch.Tensor
NEAR = 1e-4
KV_HEADS, ROOM, SIZE = 2, 4, 3  # of the cache on which appending is tried
VOCABULARY, STEPS = 40, 3  # of the run that is to be written


def check_kv_head(function: Any) -> str:
    """Check ``function(h, H, H_kv)``: the KV head that serves query head h."""
    sizes = ((14, 2), (9, 3), (4, 4), (6, 1))
    return check_table(
        function,
        {(h, heads, kv): h // (heads // kv) for heads, kv in sizes for h in range(heads)},
        {
            "neighbours share a KV head; yours are served in turn": lambda h, _, kv: h % kv,
            "the groups are H / H_kv query heads large, not H_kv": lambda h, _, kv: h // kv,
            "the number of a head is whole: divide without a remainder": (
                lambda h, heads, kv: h / (heads / kv)
            ),
            "every KV head serves a group, not only the one with its number": (lambda h, *_: h),
            "there are H_kv KV heads, and the first serves one group only": lambda *_: 0,
        },
    )


# --- RMSNorm --------------------------------------------------------------------------------------


def check_norm(function: Any) -> str:
    """Check ``function(x, weight, eps)``: RMSNorm of one vector, [d] → [d]."""
    if function is ...:
        return UNTRIED
    for size, eps in ((4, 1e-6), (7, 0.5), (3, 1e-5)):
        hint = _norm_hint(function, size, eps)
        if hint:
            return UNTRIED if hint == UNTRIED else answer(hint)
    return RIGHT


def _norm_hint(function: Any, size: int, eps: float) -> str | None:
    generator = torch.Generator().manual_seed(size)
    x = torch.randn(size, generator=generator) + 1  # its mean is not 0
    weight = torch.rand(size, generator=generator) + 0.5
    result, error = attempt(function, x.clone(), weight.clone(), eps)
    if result is ...:
        return UNTRIED
    found = real_tensor(result)
    if error or found is None:
        return error or f"return a tensor, not {shown(result)}"
    if found.shape != (size,):
        return f"the result is as long as x, [{size}], yours is {list(found.shape)}"
    right = x / (x.square().mean() + eps).sqrt() * weight
    if _near(found, right):
        return None
    names = [hint for hint, wrong in NORM_MISTAKES.items() if _near(found, wrong(x, weight, eps))]
    return names[0] if names else f"your vector is off by {_off(found, right):.3f}"


NORM_MISTAKES: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "multiply by the weights at the end": (lambda x, _, eps: x / (x.square().mean() + eps).sqrt()),
    "`eps` is added inside the root": (
        lambda x, weight, eps: x / (x.square().mean().sqrt() + eps) * weight
    ),
    "where is `eps`?": lambda x, weight, _: x / x.square().mean().sqrt() * weight,
    "the mean of the squares, not their sum": (
        lambda x, weight, eps: x / (x.square().sum() + eps).sqrt() * weight
    ),
    "divide by the root of the mean square": (
        lambda x, weight, eps: x / (x.square().mean() + eps) * weight
    ),
    "take no mean off: that would be LayerNorm": (
        lambda x, weight, eps: (x - x.mean()) / (x.var(correction=0) + eps).sqrt() * weight
    ),
    "the mean of the squares, not the variance": (
        lambda x, weight, eps: x / (x.var(correction=0) + eps).sqrt() * weight
    ),
}


def _off(found: Tensor, right: Tensor) -> float:
    return float((found.double() - right.double()).abs().max())


def _near(found: Tensor, right: Tensor) -> bool:
    return found.shape == right.shape and _off(found, right) <= NEAR


# --- the cache ------------------------------------------------------------------------------------


def check_append(function: Any) -> str:
    """Check ``function(cache, key, value, past)``: one token more in a cache of fixed size.

    ``cache`` is [2, H_kv, room, D], ``key`` and ``value`` are [H_kv, D].
    """
    if function is ...:
        return UNTRIED
    filled = torch.arange(2.0 * KV_HEADS * ROOM * SIZE).view(2, KV_HEADS, ROOM, SIZE)
    cache = torch.zeros_like(filled)
    for past in range(ROOM):
        token = filled[:, :, past]  # [2, H_kv, D]
        result, error = attempt(function, cache, token[0].clone(), token[1].clone(), past)
        if result is ...:
            return UNTRIED
        if error:
            return answer(error)
        hint = _append_hint(result, cache, filled, past)
        if hint:
            return answer(hint)
    return answer(_full_hint(function, cache, filled))


def _append_hint(result: Any, cache: Tensor, filled: Tensor, past: int) -> str | None:
    """Judge what came back when ``past`` tokens were there, and the cache afterwards."""
    try:
        keys, values = map(real_tensor, result)
    except Exception:  # whatever came back may refuse to be two things
        keys = values = None
    if keys is None or values is None:
        return f"return two tensors, keys and values, not {shown(result)}"
    wanted = filled[:, :, : past + 1]
    if keys.shape != wanted[0].shape or values.shape != wanted[1].shape:
        return (
            f"with {past} tokens in the cache keys and values are {list(wanted[0].shape)}, yours "
            f"{list(keys.shape)} and {list(values.shape)}"
        )
    if _near(keys, wanted[1]) and _near(values, wanted[0]):
        return "keys first, then values"
    if not (_near(keys, wanted[0]) and _near(values, wanted[1])):
        return f"with {past} tokens in the cache the new column is number {past}: look at yours"
    if not torch.equal(cache[:, :, : past + 1], wanted):
        return "write into `cache` itself: the next token has to find what is in it"
    return None


def _full_hint(function: Any, cache: Tensor, filled: Tensor) -> str | None:
    try:
        function(cache, filled[0, :, 0], filled[1, :, 0], ROOM)
    except ValueError:
        same = torch.equal(cache, filled)
        return None if same else "a full cache that is refused must stay as it was"
    except Exception as error:  # whatever a learner's code raises becomes a hint
        return f"a full cache is a ValueError, yours is {raised(error)}"
    return "a full cache has no column left, and your function says nothing"


# --- the file -------------------------------------------------------------------------------------


def check_run(function: Any) -> str:
    """Check ``function(prompt_ids, rows)``: a run that `compare` reads and finds equal."""
    if function is ...:
        return UNTRIED
    generator = torch.Generator().manual_seed(0)
    rows = 5 * torch.randn(STEPS, VOCABULARY, generator=generator)
    prompt_ids = [5, 6, 7]
    result, error = attempt(function, list(prompt_ids), list(rows.clone()))
    if result is ...:
        return UNTRIED
    if error or not isinstance(result, dict):
        return answer(error or f"return a dict, the run's keys and values, not {shown(result)}")
    return answer(_run_hint(result, _reference(prompt_ids, rows)))


def _reference(prompt_ids: list[int], rows: Tensor) -> dict[str, Any]:
    """Return the right run, with all candidates of each step."""
    steps = [
        {
            "token_id": int(row.argmax()),
            "top_k": [{"token_id": i, "logit": logit} for i, logit in enumerate(row.tolist())],
        }
        for row in rows
    ]
    ids = [step["token_id"] for step in steps]
    run = {"dtype": "float32", "input_ids": [prompt_ids], "generated_token_ids": ids}
    return {**run, "steps": steps}


def _run_hint(result: dict[str, Any], reference: dict[str, Any]) -> str | None:
    try:
        comparison = compare_runs(reference, plain(result))
    except InsideGenerateError as refusal:
        return shortened(str(refusal))
    except Exception as error:  # the values' own code may raise anything
        return f"your run cannot be read: {raised(error)}"
    if comparison.findings:
        return shortened(f"compare says: {'; '.join(comparison.findings[0].lines[:2])}")
    wanted = {"3 prompt ids", f"{STEPS} generated ids", f"the logits of {STEPS} tokens"}
    missing = sorted(wanted - set(comparison.agreed))
    return f"compare could not look at {missing[0]}" if missing else None
