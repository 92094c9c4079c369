"""The checks of `01_tokenizer` accept a right answer and name the likely mistakes."""

import json
from itertools import pairwise

import pytest

from inside_generate.exercises import tokenizer as checks
from inside_generate.exercises.checking import RIGHT


def merge(symbols, pair):
    merged, i = [], 0
    while i < len(symbols):
        size = 2 if tuple(symbols[i : i + 2]) == pair else 1
        merged.append("".join(symbols[i : i + size]))
        i += size
    return merged


def merge_first(symbols, pair):
    for i, found in enumerate(pairwise(symbols)):
        if found == pair:
            return [*symbols[:i], "".join(pair), *symbols[i + 2 :]]
    return symbols


def merge_from_the_right(symbols, pair):
    return [
        s[::-1] for s in merge([s[::-1] for s in symbols[::-1]], tuple(s[::-1] for s in pair[::-1]))
    ][::-1]


def merge_in_place(symbols, pair):
    symbols[:] = merge(symbols, pair)
    return symbols


def bpe(symbols, rank, key=None):
    while found := [pair for pair in pairwise(symbols) if pair in rank]:
        symbols = merge(symbols, min(found, key=key or rank.get))
    return symbols


def one_merge(symbols, rank):
    found = [pair for pair in pairwise(symbols) if pair in rank]
    return merge(symbols, min(found, key=rank.get)) if found else symbols


def leftmost(symbols, rank):
    while found := [pair for pair in pairwise(symbols) if pair in rank]:
        symbols = merge_first(symbols, found[0])
    return symbols


TABLE = {
    (checks.check_digit_tokens, "right"): (lambda n: len(str(n)), RIGHT),
    (checks.check_digit_tokens, "one token"): (lambda n: 1, "a number is not a token"),
    (checks.check_digit_tokens, "zero"): (lambda n: len(str(n)) if n else 0, "has 0"),
    (checks.check_digit_tokens, "the number"): (lambda n: n, "the number itself"),
    (checks.check_digit_tokens, "words"): (lambda n: "two", "gives 'two'"),
    (checks.check_digit_tokens, "a value"): (4, "asks for a function"),
    (checks.check_merge, "right"): (merge, RIGHT),
    (checks.check_merge, "first only"): (merge_first, "the first pair alone"),
    (checks.check_merge, "from the right"): (merge_from_the_right, "['aa', 'a'], you return"),
    (checks.check_merge, "in place"): (merge_in_place, "changes the list"),
    (checks.check_merge, "nothing"): (lambda symbols, pair: None, "is there a `return`"),
    (checks.check_merge, "garbage"): (lambda symbols, pair: "lunch", "you return 'lunch'"),
    (checks.check_merge, "raises"): (lambda symbols, pair: symbols[99], "IndexError"),
    (checks.check_merge, "a value"): (7, "TypeError"),
    (checks.check_bpe, "right"): (bpe, RIGHT),
    (checks.check_bpe, "one merge"): (one_merge, "that is one merge"),
    (checks.check_bpe, "leftmost"): (leftmost, "furthest to the left"),
    (checks.check_bpe, "highest rank"): (
        lambda symbols, rank: bpe(symbols, rank, key=lambda pair: -rank[pair]),
        "highest rank first",
    ),
    (checks.check_bpe, "no merge"): (lambda symbols, rank: symbols, "nothing was merged"),
    (checks.check_bpe, "nothing"): (lambda symbols, rank: None, "is there a `return`"),
    (checks.check_bpe, "garbage"): (lambda symbols, rank: {1: 2}, "you return {1: 2}"),
    (checks.check_bpe, "raises"): (lambda symbols, rank: rank["a"], "KeyError"),
}


@pytest.mark.parametrize(("check", "name"), TABLE, ids=lambda part: getattr(part, "__name__", part))
def test_a_check_knows_right_from_likely_wrong(check, name):
    learners, said = TABLE[check, name]
    assert said in check(learners)


def test_the_right_answer_gives_the_tokens_of_a_real_tokenizer(tokenizer):
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    rank = {tuple(pair): number for number, pair in enumerate(merges)}
    for word in ("bread", "assistant", "answers", "zzz"):
        ids = tokenizer(word, add_special_tokens=False)["input_ids"]
        assert bpe(list(word), rank) == tokenizer.convert_ids_to_tokens(ids)
