"""The checks of the exercises in `a2_reference_run`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from transformers import PreTrainedModel

from inside_generate.comparing.compare import compare_runs
from inside_generate.errors import InsideGenerateError
from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    plain,
    raised,
    shortened,
    shown,
    truth,
)

MOST_KEYS = 100  # that are read from an answer
GPU_ONLY = {"gpu_name", "peak_allocated_mib"}

# What may be wrong with a run's file, and how it is put into a good one.
FAULTS: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "a count of generated tokens that is not the number of ids": (
        lambda record: record.update(generated_tokens=record["generated_tokens"] + 1)
    ),
    "a count of prompt tokens that is not the number of ids": (
        lambda record: record.update(prompt_tokens=record["prompt_tokens"] - 1)
    ),
    "an input shape that is not [1, L]": (
        lambda record: record.update(input_shape=[1, record["prompt_tokens"] + 1])
    ),
    "a step whose id is not the generated id at its place": (
        lambda record: record["steps"][-1].update(token_id=record["steps"][-1]["token_id"] + 1)
    ),
    "a cache that has not grown with a step": (
        lambda record: record["steps"][-1].update(
            cache_length=record["steps"][-1]["cache_length"] - 1
        )
    ),
}


def check_null_keys(value: Any) -> str:
    """Check the prediction: which keys are null only because a run used no GPU."""
    if value is ...:
        return UNTRIED
    try:
        named = {value} if isinstance(value, str) else set(islice(value, MOST_KEYS))
        odd = sorted(map(shown, named - GPU_ONLY))
    except Exception:  # the value's own code may raise anything
        return answer(f"this asks for names of keys, not for {shown(value)}")
    hints = {
        "device_name": "a CPU has a name as well",
        "device": "there is always a device: 'cpu' is one",
        "cuda_version": "that is what torch was built for, not what was used: it may be there",
        "source_commit": "that is null outside a git checkout, with a GPU as well",
        "revision": "a model from a checkpoint has one on every device",
    }
    wrong = [hint for key, hint in hints.items() if key in named]
    if wrong or odd:
        return answer(wrong[0] if wrong else f"not {odd[0]}: look again")
    more = "one more: which reading comes from the GPU's allocator, or names the GPU?"
    return answer(None if named == GPU_ONLY else more)


def check_consistency(function: Any, record: dict[str, Any]) -> str:
    """Check ``function(record)``: whether a run's counts, shapes, ids and sizes fit together."""
    if function is ...:
        return UNTRIED
    for fault in ("", *FAULTS):  # first a file without one
        given = copy.deepcopy(record)
        if fault:
            FAULTS[fault](given)
        verdict, error = attempt(function, given)
        if verdict is ...:
            return UNTRIED
        if error or truth(verdict) is None:
            return answer(error or f"return True or False, not {shown(verdict)}")
        if not fault and not truth(verdict):
            return answer("your function refuses a good file")
        if fault and truth(verdict):
            return answer(f"your function does not notice {fault}")
    return RIGHT


def check_own_engine(
    function: Any, model: PreTrainedModel, record: dict[str, Any], count: int
) -> str:
    """Check ``function(model, prompt_ids, count)``: a run in the article's plain form.

    It has to agree with the first ``count`` tokens of ``record``, or part from it at a near tie.
    """
    if function is ...:
        return UNTRIED
    result, error = attempt(function, model, list(record["input_ids"][0]), count)
    if result is ...:
        return UNTRIED
    if error or not isinstance(result, dict):
        return answer(error or f"return a dict, the run's keys and values, not {shown(result)}")
    needed = ("input_ids", "generated_token_ids", "top_k")
    if missing := [key for key in needed if key not in result]:
        return answer(f"the key {missing[0]!r} is missing")
    return answer(_engine_hint(result, record, count))


def _engine_hint(result: dict[str, Any], record: dict[str, Any], count: int) -> str | None:
    try:
        run = plain(result)  # tensors and arrays are as good as lists
        ids = run["generated_token_ids"]
        if isinstance(ids, Sequence) and len(ids) != count:
            return f"{count} ids were asked for, generated_token_ids holds {len(ids)}"
        comparison = compare_runs(_first_tokens(record, count), run)
    except InsideGenerateError as refusal:
        return shortened(str(refusal))
    except Exception as error:  # the values' own code may raise anything
        return f"your run cannot be read: {raised(error)}"
    if comparison.verdict == "agree" or comparison.findings[0].near_tie:
        return None
    return shortened(f"compare says: {comparison.findings[0].lines[0]}")


def _first_tokens(record: dict[str, Any], count: int) -> dict[str, Any]:
    """Return what a comparison needs of the first ``count`` tokens of a run."""
    return {
        "dtype": record["dtype"],
        "input_ids": record["input_ids"],
        "top_k": record["top_k"],
        "generated_token_ids": record["generated_token_ids"][:count],
        "steps": record["steps"][:count],
    }
