"""The checks of the exercises in `10_kv_cache_memory`."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    number,
    shown,
)


def check_bytes_per_token(function: Any) -> str:
    """Check ``function(layers, kv_heads, head_size, itemsize)``: bytes that a token adds."""
    sizes = [(24, 2, 64, 2), (30, 3, 64, 4), (2, 1, 16, 1)]
    return check_table(
        function,
        {(n, h, d, b): 2 * n * h * d * b for n, h, d, b in sizes},
        {
            "keys and values are two tensors": (lambda n, h, d, b: n * h * d * b),
            "that is one layer; each keeps its own": (lambda _n, h, d, b: 2 * h * d * b),
            "that counts numbers; how many bytes has each?": (lambda n, h, d, _b: 2 * n * h * d),
            "every KV head has keys and values of its own": (lambda n, _h, d, b: 2 * n * d * b),
        },
    )


def check_kv_head(function: Any) -> str:
    """Check ``function(query_head, query_heads, kv_heads)``: the KV head that is read."""
    cases = {
        (query, heads, keys): query // (heads // keys)
        for heads, keys in ((14, 2), (9, 3), (4, 4), (6, 1))
        for query in range(heads)
    }
    return check_table(
        function,
        cases,
        {
            "neighbours share a KV head; yours take turns": (
                lambda query, _heads, keys: query % keys
            ),
            "that is the place within the group, not the group": (
                lambda query, heads, keys: query % (heads // keys)
            ),
            "divide by the size of a group, not by the number of groups": (
                lambda query, _heads, keys: query // keys
            ),
            "a head has a whole number: divide with `//`": (
                lambda query, heads, keys: query / (heads / keys)
            ),
        },
    )


def check_rows_that_fit(function: Any) -> str:
    """Check ``function(memory_bytes, weights_bytes, bytes_per_token, length)``: whole rows."""

    def right(memory: int, weights: int, per_token: int, length: int) -> int:
        return max(memory - weights, 0) // (per_token * length)

    cases = [(8000, 2000, 12, 100), (8000, 2000, 11, 100), (5000, 1000, 10, 50), (900, 1000, 10, 7)]
    return check_table(
        function,
        {arguments: right(*arguments) for arguments in cases},
        {
            "the weights take their part of the memory first": (
                lambda memory, _weights, per_token, length: memory // (per_token * length)
            ),
            "half a row serves nobody: round down": (
                lambda memory, weights, per_token, length: (
                    max(memory - weights, 0) / (per_token * length)
                )
            ),
            "where not even the weights fit, the answer is 0": (
                lambda memory, weights, per_token, length: (
                    (memory - weights) // (per_token * length)
                )
            ),
            "the weights are there once, not in every row": (
                lambda memory, weights, per_token, length: memory // (weights + per_token * length)
            ),
            "that is how many tokens fit; how many rows of that length?": (
                lambda memory, weights, per_token, _length: max(memory - weights, 0) // per_token
            ),
        },
    )


def check_kv_bytes(function: Any) -> str:
    """Check ``function(config, length, batch, itemsize)`` on configs that leave things out."""
    if function is ...:
        return UNTRIED
    for says, config, numbers in _configs():
        for length, batch, itemsize in ((17, 3, 2), (5, 1, 4)):
            result, error = attempt(function, copy.copy(config), length, batch, itemsize)
            if result is ...:
                return UNTRIED
            where = f"for a config that {says}, "
            if error:
                return answer(where + error)
            right = numbers * length * batch * itemsize
            if number(result) != right:
                return answer(where + _where_to_look(result, right))
    return RIGHT


def _configs() -> list[tuple[str, Any, int]]:
    """Return configs with what is special about each, and the numbers that a token adds."""
    sizes = {"num_hidden_layers": 3, "hidden_size": 48, "num_attention_heads": 6}
    return [
        ("names its KV heads", SimpleNamespace(**sizes, num_key_value_heads=2), 2 * 3 * 2 * 8),
        ("does not know the name `num_key_value_heads`", SimpleNamespace(**sizes), 2 * 3 * 6 * 8),
        (
            "says `num_key_value_heads=None`",
            SimpleNamespace(**sizes, num_key_value_heads=None),
            2 * 3 * 6 * 8,
        ),
        (
            "names a `head_dim` of 20",
            SimpleNamespace(**sizes, num_key_value_heads=2, head_dim=20),
            2 * 3 * 2 * 20,
        ),
        (
            "says `head_dim=None`",
            SimpleNamespace(**sizes, num_key_value_heads=2, head_dim=None),
            2 * 3 * 2 * 8,
        ),
    ]


def _where_to_look(result: Any, right: int) -> str:
    if number(result) == 3 * right:
        return f"{shown(result)} is three times too much: KV heads count, not query heads"
    if number(result) == right / 2:
        return "keys and values are two tensors"
    return f"the bytes are {right}, you return {shown(result)}"
