"""The checks of `10_kv_cache_memory` accept a right answer and name the likely mistakes."""

import pytest

from inside_generate.exercises import kv_cache_memory
from inside_generate.exercises.checking import RIGHT


def rows_that_fit(memory, weights, per_token, length):
    return max(memory - weights, 0) // (per_token * length)


def kv_bytes(config, length, batch, itemsize):
    heads = config.num_attention_heads
    own = getattr(config, "num_key_value_heads", None) or heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return 2 * config.num_hidden_layers * own * size * batch * length * itemsize


def kv_bytes_of_query_heads(config, length, batch, itemsize):
    return 2 * config.num_hidden_layers * config.hidden_size * batch * length * itemsize


def kv_bytes_without_defaults(config, length, batch, itemsize):
    size = config.hidden_size // config.num_attention_heads
    return (
        2 * config.num_hidden_layers * config.num_key_value_heads * size * batch * length * itemsize
    )


TABLE = {
    ("bytes_per_token", "right"): (lambda n, h, d, b: 2 * n * h * d * b, RIGHT),
    ("bytes_per_token", "one tensor"): (lambda n, h, d, b: n * h * d * b, "two tensors"),
    ("bytes_per_token", "one layer"): (lambda n, h, d, b: 2 * h * d * b, "one layer"),
    ("bytes_per_token", "numbers"): (lambda n, h, d, b: 2 * n * h * d, "how many bytes"),
    ("bytes_per_token", "one head"): (lambda n, h, d, b: 2 * n * d * b, "every KV head"),
    ("bytes_per_token", "something"): (lambda n, h, d, b: 1, "your function gives 1"),
    ("kv_head", "right"): (lambda q, heads, kv: q // (heads // kv), RIGHT),
    ("kv_head", "in turn"): (lambda q, heads, kv: q % kv, "neighbours share"),
    ("kv_head", "within"): (lambda q, heads, kv: q % (heads // kv), "place within the group"),
    ("kv_head", "by groups"): (lambda q, heads, kv: q // kv, "the size of a group"),
    ("kv_head", "fraction"): (lambda q, heads, kv: q / (heads / kv), "divide with `//`"),
    ("rows_that_fit", "right"): (rows_that_fit, RIGHT),
    ("rows_that_fit", "no weights"): (lambda m, w, t, n: m // (t * n), "the weights take"),
    ("rows_that_fit", "fraction"): (lambda m, w, t, n: max(m - w, 0) / (t * n), "round down"),
    ("rows_that_fit", "negative"): (lambda m, w, t, n: (m - w) // (t * n), "the answer is 0"),
    ("rows_that_fit", "weights a row"): (lambda m, w, t, n: m // (w + t * n), "there once"),
    ("rows_that_fit", "tokens"): (lambda m, w, t, n: max(m - w, 0) // t, "how many rows"),
    ("kv_bytes", "right"): (kv_bytes, RIGHT),
    ("kv_bytes", "query heads"): (kv_bytes_of_query_heads, "KV heads count"),
    ("kv_bytes", "one tensor"): (lambda *all: kv_bytes(*all) // 2, "two tensors"),
    ("kv_bytes", "no defaults"): (
        kv_bytes_without_defaults,
        "does not know the name `num_key_value_heads`, your function raised AttributeError",
    ),
    ("kv_bytes", "batch forgotten"): (lambda c, n, b, i: kv_bytes(c, n, 1, i), "the bytes are"),
    ("kv_bytes", "words"): (lambda *all: "many", "you return 'many'"),
    ("kv_bytes", "fraction"): (lambda *all: kv_bytes(*all) + 0.5, "the bytes are"),
}


@pytest.mark.parametrize(("exercise", "name"), TABLE)
def test_a_check_knows_right_from_likely_wrong(exercise, name):
    learners, said = TABLE[exercise, name]
    assert said in getattr(kv_cache_memory, f"check_{exercise}")(learners)


def test_a_head_size_of_its_own_is_asked_for():
    def quotient(config, length, batch, itemsize):
        return kv_bytes(without_head_dim(config), length, batch, itemsize)

    def without_head_dim(config):
        return type(config)(**{**vars(config), "head_dim": None})

    said = kv_cache_memory.check_kv_bytes(quotient)
    assert "names a `head_dim` of 20" in said


@pytest.mark.parametrize("exercise", dict.fromkeys(exercise for exercise, _ in TABLE))
@pytest.mark.parametrize("garbage", [7, None, lambda: 1, lambda *_: None, lambda *_: object()])
def test_garbage_gives_a_hint_and_no_traceback(exercise, garbage):
    assert getattr(kv_cache_memory, f"check_{exercise}")(garbage).startswith("Not yet: ")
