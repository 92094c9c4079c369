"""The checks of `a2_reference_run` accept a right answer and name the likely mistakes."""

import copy

import pytest
import torch
from tests.tiny import tiny_tokenizer

from inside_generate import generate, run_record
from inside_generate.exercises import reference_run as checks
from inside_generate.exercises.checking import RIGHT, UNTRIED


@pytest.fixture(scope="module")
def record(model):
    trace = generate(model, tiny_tokenizer(), "soup", max_new_tokens=4, eos_token_ids=())
    return run_record(trace, model)


def fits_together(record):
    ids, steps = record["generated_token_ids"], record["steps"]
    length = len(record["input_ids"][0])
    return (
        record["prompt_tokens"] == length
        and record["input_shape"] == [1, length]
        and record["generated_tokens"] == len(ids)
        and [step["token_id"] for step in steps] == ids
        and [step["cache_length"] for step in steps] == list(range(length, length + len(ids)))
    )


def engine(model, prompt_ids, count):
    ids, top_k = list(prompt_ids), []
    for _ in range(count):
        best = model(torch.tensor([ids])).logits[0, -1].topk(5)
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        top_k = top_k or [{"token_id": i, "logit": z} for i, z in pairs]
        ids.append(best.indices[0].item())
    return {"input_ids": [prompt_ids], "generated_token_ids": ids[-count:], "top_k": top_k}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"gpu_name", "peak_allocated_mib"}, RIGHT),
        (["peak_allocated_mib", "gpu_name"], RIGHT),
        ("gpu_name", "one more"),
        (set(), "one more"),
        ({"gpu_name", "peak_allocated_mib", "cuda_version"}, "it may be there"),
        ({"device_name"}, "a CPU has a name"),
        ({"source_commit", "gpu_name"}, "with a GPU as well"),
        ({"soup"}, "not 'soup'"),
        (7, "not for 7"),
        ([[]], "not for [[]]"),
        ({None, 3}, "look again"),
    ],
)
def test_the_null_keys_check(value, said):
    assert said in checks.check_null_keys(value)


@pytest.mark.parametrize("fault", list(checks.FAULTS))
def test_a_fault_that_goes_unnoticed_is_named(record, fault):
    others = [put_in for name, put_in in checks.FAULTS.items() if name != fault]

    def blind(seen):
        return all(not _holds(put_in, record, seen) for put_in in others)

    assert f"does not notice {fault}" in checks.check_consistency(blind, record)


def _holds(put_in, record, seen):
    """Whether ``seen`` is the record with just this fault."""
    broken = copy.deepcopy(record)
    put_in(broken)
    return broken == seen


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (fits_together, RIGHT),
        (lambda record: True, "does not notice a count of generated tokens"),
        (lambda record: False, "refuses a good file"),
        (lambda record: 1, "True or False, not 1"),
        (lambda record: None, "is there a `return`"),
        (lambda record: record["soup"], "KeyError"),
        (lambda record: record.clear() or True, "does not notice"),
    ],
)
def test_the_consistency_check(record, function, said):
    assert said in checks.check_consistency(function, record)
    assert record["steps"]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (engine, RIGHT),
        (lambda model, ids, n: {**engine(model, ids, n), "top_k": []}, RIGHT),
        (lambda model, ids, n: engine(model, ids, n + 1), "generated_token_ids holds 4"),
        (lambda model, ids, n: engine(model, ids[:-1], n), "compare says: prompt id"),
        (
            lambda model, ids, n: {**engine(model, ids, n), "generated_token_ids": [0] * n},
            "compare says: token 1",
        ),
        (
            lambda model, ids, n: {**engine(model, ids, n), "top_k": [{"token_id": 1, "logit": 9}]},
            "compare says: token 1",
        ),
        (lambda model, ids, n: {"input_ids": [ids], "top_k": []}, "'generated_token_ids' is"),
        (lambda model, ids, n: {**engine(model, ids, n), "top_k": 3}, "top_k must be a list"),
        (lambda model, ids, n: engine(model, ids, n)["generated_token_ids"], "return a dict"),
        (lambda model, ids, n: None, "is there a `return`"),
    ],
)
def test_the_own_engines_check(model, record, function, said):
    assert said in checks.check_own_engine(function, model, record, 3)


def test_an_engine_that_takes_the_other_of_two_tied_tokens_is_right(model, record):
    def other(model, ids, count):
        run = engine(model, ids, count)
        run["generated_token_ids"][1] = record["steps"][1]["top_k"][1]["token_id"]
        return run

    assert "token 2" in checks.check_own_engine(other, model, record, 3)
    tied = {**record, "dtype": "bfloat16"}
    first, second = tied["steps"][1]["top_k"][:2]
    close = {**second, "logit": first["logit"] - 0.01}
    tied["steps"] = [dict(step) for step in tied["steps"]]
    tied["steps"][1]["top_k"] = [first, close]
    assert checks.check_own_engine(other, model, tied, 3) == RIGHT


def test_untouched_cells_are_told_so(model, record):
    assert checks.check_null_keys(...) == UNTRIED
    for function in (..., lambda *_: ...):
        assert checks.check_consistency(function, record) == UNTRIED
        assert checks.check_own_engine(function, model, record, 3) == UNTRIED
