"""The checks of the exercises in `a2_reference_run`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from transformers import PreTrainedModel

from inside_generate.comparing.compare import compare_runs
from inside_generate.errors import InsideGenerateError
from inside_generate.exercises.checking import RIGHT, UNTRIED, answer, attempt

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
        named = {value} if isinstance(value, str) else set(value)
    except TypeError:
        return answer(f"this asks for names of keys, not for {value!r}")
    hints = {
        "device_name": "a CPU has a name as well",
        "device": "there is always a device: 'cpu' is one",
        "cuda_version": "that is what torch was built for, not what was used: it may be there",
        "source_commit": "that is null outside a git checkout, with a GPU as well",
        "revision": "a model from a checkpoint has one on every device",
    }
    wrong = [hint for key, hint in hints.items() if key in named]
    if wrong or named - GPU_ONLY:
        return answer(wrong[0] if wrong else f"not {min(named - GPU_ONLY, key=str)!r}: look again")
    more = "one more: which reading comes from the GPU's allocator, or names the GPU?"
    return answer(None if named == GPU_ONLY else more)


def check_consistency(function: Any, record: dict[str, Any]) -> str:
    """Check ``function(record)``: whether a run's counts, shapes, ids and sizes fit together."""
    if function is ...:
        return UNTRIED
    verdict, error = attempt(function, copy.deepcopy(record))
    if verdict is ...:
        return UNTRIED
    if error or not isinstance(verdict, bool):
        return answer(error or f"return True or False, not {verdict!r}")
    if not verdict:
        return answer("your function refuses a good file")
    for fault, put_in in FAULTS.items():
        broken = copy.deepcopy(record)
        put_in(broken)
        verdict, error = attempt(function, broken)
        if error or verdict:
            return answer(error or f"your function does not notice {fault}")
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
        return answer(error or f"return a dict, the run's keys and values, not {result!r}")
    needed = ("input_ids", "generated_token_ids", "top_k")
    if missing := [key for key in needed if key not in result]:
        return answer(f"the key {missing[0]!r} is missing")
    ids = result["generated_token_ids"]
    if isinstance(ids, Sequence) and len(ids) != count:
        return answer(f"{count} ids were asked for, generated_token_ids holds {len(ids)}")
    try:
        comparison = compare_runs(_first_tokens(record, count), result)
    except InsideGenerateError as refusal:
        return answer(str(refusal))
    if comparison.verdict == "agree" or comparison.findings[0].near_tie:
        return RIGHT
    return answer(f"compare says: {comparison.findings[0].lines[0]}")


def _first_tokens(record: dict[str, Any], count: int) -> dict[str, Any]:
    """Return what a comparison needs of the first ``count`` tokens of a run."""
    return {
        "dtype": record["dtype"],
        "input_ids": record["input_ids"],
        "top_k": record["top_k"],
        "generated_token_ids": record["generated_token_ids"][:count],
        "steps": record["steps"][:count],
    }
