"""The checks of `07_kv_cache` accept a right answer and name the likely mistakes."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from inside_generate import cached_keys_and_values
from inside_generate.exercises import kv_cache
from inside_generate.exercises.checking import RIGHT


def positions(length, tokens):
    return sum(length + n for n in range(tokens)), length + tokens - 1


def attention(q, keys, values):
    return (keys @ q / len(q) ** 0.5).softmax(-1) @ values


def reusable(old, new):
    return [*(a == b for a, b in zip(old, new, strict=False)), False].index(False)


def past_is_safe(model, ids, layers=None, which=(0, 1), cut=1):
    with torch.inference_mode():
        short = model(input_ids=ids[:, :-1], use_cache=True).cache
        full = model(ids, use_cache=True).cache
    return all(
        torch.allclose(
            cached_keys_and_values(short, layer)[part],
            cached_keys_and_values(full, layer)[part][:, :, : full.get_seq_length() - cut],
            atol=1e-3,
        )
        for layer in range(layers or model.config.num_hidden_layers)
        for part in which
    )


TABLE = {
    ("positions", "right"): (positions, RIGHT),
    ("positions", "last token computed"): (
        lambda n, t: (positions(n, t)[0], n + t),
        "has not been an input",
    ),
    ("positions", "no growth"): (lambda n, t: (t * n, n + t - 1), "gets longer"),
    ("positions", "begins late"): (
        lambda n, t: (positions(n + 1, t)[0], n + t - 1),
        "begin with L",
    ),
    ("positions", "other way round"): (lambda n, t: positions(n, t)[::-1], "first without"),
    ("positions", "words"): (lambda n, t: "many", "gives 'many'"),
    ("attention", "right"): (attention, RIGHT),
    ("attention", "no scale"): (lambda q, k, v: (k @ q).softmax(-1) @ v, "by the root"),
    ("attention", "head size"): (
        lambda q, k, v: (k @ q / len(q)).softmax(-1) @ v,
        "not by the head size",
    ),
    ("attention", "no softmax"): (lambda q, k, v: (k @ q / len(q) ** 0.5) @ v, "where is softmax"),
    ("attention", "mixes keys"): (lambda q, k, v: attention(q, k, k), "you mix the keys"),
    ("attention", "is_causal"): (
        lambda q, k, v: scaled_dot_product_attention(q[None], k, v, is_causal=True)[0],
        "only the first key",
    ),
    ("attention", "the library's"): (
        lambda q, k, v: scaled_dot_product_attention(q[None], k, v)[0],
        RIGHT,
    ),
    ("attention", "weights"): (lambda q, k, v: (k @ q / len(q) ** 0.5).softmax(-1), "has shape"),
    ("attention", "zeros"): (lambda q, k, v: torch.zeros_like(q), "is off by"),
    ("attention", "a list"): (lambda q, k, v: ["1.0"], "return a tensor"),
    ("attention", "raises"): (lambda q, k, v: q @ k @ v @ q, "your function raised"),
    ("reusable", "right"): (reusable, RIGHT),
    ("reusable", "all equal places"): (
        lambda old, new: sum(a == b for a, b in zip(old, new, strict=False)),
        "another past",
    ),
    ("reusable", "a set"): (lambda old, new: len(set(old) & set(new)), "where a token stands"),
    ("reusable", "shorter"): (lambda old, new: min(len(old), len(new)), "gives 3"),
    ("past_is_safe", "right"): (past_is_safe, RIGHT),
    ("past_is_safe", "always"): (lambda model, ids: True, "every other the answer is False"),
    ("past_is_safe", "never"): (lambda model, ids: False, "causal model the answer is True"),
    ("past_is_safe", "layer 0 only"): (
        lambda model, ids: past_is_safe(model, ids, layers=1),
        "of every layer",
    ),
    ("past_is_safe", "keys only"): (
        lambda model, ids: past_is_safe(model, ids, which=(0,)),
        "keys and values",
    ),
    ("past_is_safe", "not cut"): (
        lambda model, ids: past_is_safe(model, ids, cut=0),
        "your function raised",
    ),
    ("past_is_safe", "a tensor"): (lambda model, ids: torch.tensor(1.0), "return True or False"),
}


@pytest.mark.parametrize(("exercise", "name"), TABLE)
def test_a_check_knows_right_from_likely_wrong(exercise, name):
    learners, said = TABLE[exercise, name]
    assert said in getattr(kv_cache, f"check_{exercise}")(learners)


@pytest.mark.parametrize("exercise", dict.fromkeys(exercise for exercise, _ in TABLE))
@pytest.mark.parametrize("garbage", [7, None, lambda: 1, lambda *_: None, lambda *_: object()])
def test_garbage_gives_a_hint_and_no_traceback(exercise, garbage):
    assert getattr(kv_cache, f"check_{exercise}")(garbage).startswith("Not yet: ")
