"""The checks of `a3_your_own_engine` accept a right answer and name the likely mistakes."""

import pytest
import torch

from inside_generate.exercises import your_own_engine as checks
from inside_generate.exercises.checking import RIGHT


def norm(x, weight, eps):
    return x / torch.sqrt(x.square().mean() + eps) * weight


def append(cache, key, value, past):
    if past >= cache.shape[2]:
        raise ValueError("full")
    cache[0, :, past], cache[1, :, past] = key, value
    return cache[:, :, : past + 1]


def append_to_a_copy(cache, key, value, past):
    return append(cache.clone(), key, value, past)


def append_one_too_late(cache, key, value, past):
    if past + 1 < cache.shape[2]:
        cache[0, :, past + 1], cache[1, :, past + 1] = key, value
    return cache[:, :, : past + 1]


def append_and_then_refuse(cache, key, value, past):
    keys_and_values = append(cache, key, value, min(past, cache.shape[2] - 1))
    if past == cache.shape[2]:
        raise ValueError("full")
    return keys_and_values


def run_of(prompt_ids, rows, count=3):
    steps = []
    for row in rows:
        top = row.topk(count)
        pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
        candidates = [{"token_id": i, "logit": logit} for i, logit in pairs]
        steps.append({"token_id": int(row.argmax()), "top_k": candidates})
    ids = [step["token_id"] for step in steps]
    return {"input_ids": [prompt_ids], "steps": steps, "generated_token_ids": ids}


def without(key):
    return lambda *given: {k: part for k, part in run_of(*given).items() if k != key}


def probabilities(prompt_ids, rows):
    return run_of(prompt_ids, [row.softmax(-1) for row in rows])


TABLE = {
    ("kv_head", "right"): (lambda h, H, H_kv: h // (H // H_kv), RIGHT),
    ("kv_head", "in turn"): (lambda h, H, H_kv: h % H_kv, "served in turn"),
    ("kv_head", "the other size"): (lambda h, H, H_kv: h // H_kv, "groups are H / H_kv"),
    ("kv_head", "with a remainder"): (lambda h, H, H_kv: h / (H / H_kv), "without a remainder"),
    ("kv_head", "MHA"): (lambda h, H, H_kv: h, "serves a group"),
    ("kv_head", "always 0"): (lambda h, H, H_kv: 0, "one group only"),
    ("kv_head", "a word"): (lambda h, H, H_kv: "soup", "gives 'soup'"),
    ("norm", "right"): (norm, RIGHT),
    ("norm", "a list"): (lambda *given: norm(*given).tolist(), RIGHT),
    ("norm", "no weights"): (lambda x, w, eps: norm(x, 1, eps), "multiply by the weights"),
    ("norm", "eps outside"): (
        lambda x, w, eps: x / (x.square().mean().sqrt() + eps) * w,
        "inside the root",
    ),
    ("norm", "no eps"): (lambda x, w, eps: norm(x, w, 0), "where is `eps`"),
    ("norm", "sum"): (lambda x, w, eps: x / (x.square().sum() + eps).sqrt() * w, "not their sum"),
    ("norm", "no root"): (lambda x, w, eps: x / (x.square().mean() + eps) * w, "the root of"),
    ("norm", "LayerNorm"): (
        lambda x, w, eps: torch.nn.functional.layer_norm(x, x.shape, w, eps=eps),
        "LayerNorm",
    ),
    ("norm", "variance"): (
        lambda x, w, eps: x / (x.var(correction=0) + eps).sqrt() * w,
        "variance",
    ),
    ("norm", "zeros"): (lambda x, w, eps: 0 * x, "is off by"),
    ("norm", "one number"): (lambda x, w, eps: x.mean(), "as long as x"),
    ("norm", "raises"): (lambda x, w, eps: x @ w @ w, "your function raised"),
    ("norm", "nothing"): (lambda x, w, eps: None, "is there a `return`"),
    ("append", "right"): (append, RIGHT),
    ("append", "a tuple"): (lambda *given: tuple(append(*given)), RIGHT),
    ("append", "a copy"): (append_to_a_copy, "write into `cache` itself"),
    ("append", "too late"): (append_one_too_late, "the new column is number 0"),
    ("append", "values first"): (lambda *given: append(*given).flip(0), "keys first"),
    ("append", "the whole room"): (lambda c, *given: (append(c, *given), c)[1], "yours [2, 4, 3]"),
    ("append", "no refusal"): (
        lambda c, k, v, past: append(c, k, v, min(past, 3)),
        "says nothing",
    ),
    ("append", "another refusal"): (
        lambda c, k, v, past: append(c, k, v, past) if past < 4 else c[9],
        "is a ValueError, yours is IndexError",
    ),
    ("append", "half done"): (append_and_then_refuse, "must stay as it was"),
    ("append", "one tensor"): (lambda *given: append(*given)[0, 0, 0, 0], "return two tensors"),
    ("run", "right"): (run_of, RIGHT),
    ("run", "all candidates"): (lambda *given: run_of(*given, count=40), RIGHT),
    ("run", "tensors"): (
        lambda *given: {**run_of(*given), "input_ids": torch.tensor([[5, 6, 7]])},
        RIGHT,
    ),
    ("run", "steps alone"): (without("generated_token_ids"), RIGHT),
    ("run", "no prompt"): (without("input_ids"), "could not look at 3 prompt ids"),
    ("run", "no logits"): (without("steps"), "could not look at the logits of 3 tokens"),
    ("run", "another token"): (lambda p, rows: run_of(p, [-row for row in rows]), "token 1"),
    ("run", "probabilities"): (probabilities, "in the other"),
    ("run", "a prompt id more"): (lambda p, rows: run_of([1, *p], rows), "prompt id 0"),
    ("run", "a word"): (lambda p, rows: {**run_of(p, rows), "steps": "soup"}, "must be a list"),
    ("run", "a list"): (lambda p, rows: [], "return a dict"),
}


@pytest.mark.parametrize("case", list(TABLE), ids=" ".join)
def test_each_answer_gets_its_hint(case):
    function, said = TABLE[case]
    answer = getattr(checks, f"check_{case[0]}")(function)
    assert said == answer if said == RIGHT else said in answer
    assert "\n" not in answer
