"""The checks of the exercises in `01_tokenizer`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    same,
    shown,
)

Pair = tuple[str, str]

# symbols and the pair to merge
MERGES: list[tuple[list[str], Pair, list[str]]] = [
    (["l", "u", "n", "c", "h"], ("c", "h"), ["l", "u", "n", "ch"]),
    (["a", "b", "c", "a", "b"], ("a", "b"), ["ab", "c", "ab"]),
    (["a", "a", "a"], ("a", "a"), ["aa", "a"]),
    (["a", "b", "b", "a"], ("a", "b"), ["ab", "b", "a"]),
    (["a", "b"], ("b", "a"), ["a", "b"]),
    (["ab", "c", "ab"], ("ab", "c"), ["abc", "ab"]),
]

# symbols, pairs in the order of their rank, the tokens
WORDS: list[tuple[list[str], list[Pair], list[str]]] = [
    (["l", "o", "w"], [("l", "o"), ("lo", "w")], ["low"]),
    (list("abcde"), [("b", "c"), ("c", "d"), ("a", "b"), ("d", "e")], ["a", "bc", "de"]),
    (["a", "b", "c"], [("b", "c"), ("a", "b")], ["a", "bc"]),
    (["a", "b", "a", "b"], [("a", "b"), ("ab", "ab")], ["abab"]),
    (["a", "b", "c", "d"], [("c", "d"), ("b", "c"), ("a", "b"), ("b", "cd")], ["ab", "cd"]),
    (["x"], [], ["x"]),
]


def check_digit_tokens(function: Any) -> str:
    """Check ``function(number)``: the tokens of a whole number where each digit is one."""
    cases = {(number,): len(str(number)) for number in (0, 7, 10, 99, 100, 2024, 1_000_000)}
    return check_table(
        function,
        cases,
        {
            "a number is not a token: look at the boxes of the year above": lambda _: 1,
            "how many digits has 0?": lambda number: len(str(number)) if number else 0,
            "that is the number itself; how many digits does it have?": lambda number: number,
        },
    )


def check_merge(function: Any) -> str:
    """Check ``function(symbols, pair)``: the list in which each such pair has become one symbol."""
    if function is ...:
        return UNTRIED
    for symbols, pair, merged in MERGES:
        given = list(symbols)
        result, error = attempt(function, given, pair)
        if result is ...:
            return UNTRIED
        if not same(given, symbols):
            return answer("your function changes the list that it was given: build a new one")
        if error or not same(result, merged):
            return answer(error or _merge_hint(symbols, pair, merged, result))
    return RIGHT


def _merge_hint(symbols: list[str], pair: Pair, merged: list[str], result: Any) -> str:
    if same(result, _merge_first(symbols, pair)):
        return "that merges the first pair alone; every pair like it is to be merged"
    return f"{pair} in {symbols} should give {merged}, you return {shown(result)}"


def _merge_first(symbols: list[str], pair: Pair) -> list[str]:
    for i in range(len(symbols) - 1):
        if (symbols[i], symbols[i + 1]) == pair:
            return [*symbols[:i], "".join(pair), *symbols[i + 2 :]]
    return symbols


def check_bpe(function: Any) -> str:
    """Check ``function(symbols, rank)``: the tokens of one word; ``rank`` maps a pair to its place.

    The lower the rank, the earlier a pair is merged.
    """
    if function is ...:
        return UNTRIED
    for symbols, order, tokens in WORDS:
        rank = {pair: number for number, pair in enumerate(order)}
        result, error = attempt(function, list(symbols), dict(rank))
        if result is ...:
            return UNTRIED
        if error or not same(result, tokens):
            return answer(error or _bpe_hint(symbols, rank, tokens, result))
    return RIGHT


def _bpe_hint(symbols: list[str], rank: dict[Pair, int], tokens: list[str], result: Any) -> str:
    if same(result, symbols):
        return f"nothing was merged in {symbols}"
    if rank and same(result, _merge_first(symbols, min(rank, key=lambda pair: rank[pair]))):
        return f"that is one merge; go on as long as a pair of {shown(result)} has a rank"
    if same(result, _by_place(symbols, rank, lambda place, _: place)):
        return "you merge the pair furthest to the left; which pair comes first is told by its rank"
    if same(result, _by_place(symbols, rank, lambda _, number: -number)):
        return "you merge the highest rank first; the lowest rank was learnt first"
    return f"{symbols} should give {tokens}, you return {shown(result)}"


def _by_place(
    symbols: list[str], rank: dict[Pair, int], order: Callable[[int, int], int]
) -> list[str]:
    """Merge until no pair has a rank, in another order than BPE's."""
    while True:
        pairs = enumerate(pairwise(symbols))
        found = [(order(place, rank[pair]), pair) for place, pair in pairs if pair in rank]
        if not found:
            return symbols
        symbols = _merge_first(symbols, min(found)[1])
