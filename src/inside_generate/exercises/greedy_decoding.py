"""The checks of the exercises in `06_greedy_decoding`."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    number,
    plain,
    shortened,
    shown,
)

Tree = Mapping[str, tuple[float, Mapping[str, float]]]

TREES: tuple[Tree, ...] = (
    {
        "A": (0.51, {"A2": 0.10, **{f"A{n}": 0.09 for n in range(3, 13)}}),
        "B": (0.49, {"B2": 0.90, "B3": 0.10}),
    },
    {
        "soup": (0.3, {"with": 0.8, ".": 0.2}),
        "rice": (0.6, {"with": 0.5, "and": 0.3, ".": 0.2}),
        "peas": (0.1, {"and": 0.95, ".": 0.05}),
    },
    {"New": (0.2, {"Zealand": 0.3, "York": 0.7}), "the": (0.8, {"sea": 0.1, "sun": 0.1})},
)


def check_argmax(function: Any) -> str:
    """Check ``function(scores)``: the index of the highest score, the first one of equals."""
    rows = ((0.5, 3.0, -1.0), (2.0, 5.0, 1.0, 5.0), (-3.0, -1.5, -2.0), (4.5,), (9.0, 1.0))
    return check_table(
        function,
        {(row,): row.index(max(row)) for row in rows},
        {
            "that is the highest score itself; the model's next input is its index": max,
            "of equal scores the first wins, and yours is the last": (
                lambda row: len(row) - 1 - row[::-1].index(max(row))
            ),
            "scores may all be below 0: where does your search begin?": (
                lambda row: row.index(max(row)) if max(row) > 0 else 0
            ),
            "that is the lowest score": lambda row: row.index(min(row)),
        },
    )


def check_best_pair(function: Any) -> str:
    """Check ``function(tree)``: the most probable pair of tokens, and its joint probability."""
    if function is ...:
        return UNTRIED
    results = []
    for tree in TREES:
        result, error = attempt(function, copy.deepcopy(tree))
        if result is ...:
            return UNTRIED
        if error:
            return answer(error)
        pair = _pair(result)
        if pair is None:
            return answer(f"return ((first, second), probability), not {shown(result)}")
        results.append(pair)
    return answer(_pair_hint(results))


def _pair_hint(results: list[tuple[str, str, float]]) -> str | None:
    paths = [result[:2] for result in results]
    if paths == [_path(tree, _greedy_score) for tree in TREES]:
        return "that is greedy's path; look at the pairs that begin otherwise as well"
    if paths == [_path(tree, _conditional) for tree in TREES]:
        return "you compare the second probabilities alone; how probable is it to get there?"
    for tree, (first, second, probability) in zip(TREES, results, strict=True):
        if (first, second) != _path(tree, _joint):
            named = shortened(f"{first} {second}")
            return f"there is a pair more probable than {named} in {dict(tree)}"
        if not math.isclose(probability, _joint(tree, first, second), rel_tol=1e-6):
            return f"{first} {second} it is, but {probability} is not the product along its path"
    return None


def check_tried(function: Any) -> str:
    """Check ``function(firsts, pairs)``: how many first tokens the exact search has to try.

    ``firsts`` are probabilities, falling; ``pairs[i]`` is the best joint one beginning with i.
    """
    cases = {
        ((0.51, 0.49), (0.051, 0.441)): 2,
        ((0.6, 0.3, 0.1), (0.3, 0.27, 0.09)): 1,
        ((0.5, 0.4, 0.1), (0.2, 0.15, 0.05)): 2,
        ((0.4, 0.3, 0.2, 0.1), (0.04, 0.06, 0.18, 0.09)): 3,
        ((0.5, 0.2, 0.1, 0.05), (0.01, 0.02, 0.03, 0.04)): 4,
        ((0.9,), (0.5,)): 1,
    }
    return check_table(
        function,
        cases,
        {
            "one too many: a first token that cannot win need not be tried": (
                lambda firsts, pairs: min(cases[firsts, pairs] + 1, len(firsts))
            ),
            "the search may stop before it has tried them all": lambda firsts, _: len(firsts),
            "you count up to the winner; can a later one be ruled out at that point?": (
                lambda _, pairs: pairs.index(max(pairs)) + 1
            ),
            "how many, not which: the first one counts as 1": (
                lambda firsts, pairs: cases[firsts, pairs] - 1
            ),
        },
    )


def check_log_probability(function: Any) -> str:
    """Check ``function(all_logits, ids, L)``: log P of the ids from index L on.

    ``all_logits`` is [1, N, V], ``ids`` [1, N]; the first L ids are the prompt.
    """
    if function is ...:
        return UNTRIED
    for length, count in ((3, 2), (2, 4), (5, 1)):
        generator = torch.Generator().manual_seed(length)
        logits = 2 * torch.randn(1, length + count, 7, generator=generator)
        ids = torch.randint(0, 7, (1, length + count), generator=generator)
        result, error = attempt(function, logits.clone(), ids.clone(), length)
        if result is ...:
            return UNTRIED
        found = number(result)
        if error or found is None:
            return answer(error or f"return one number, not {shown(result)}")
        if hint := _log_probability_hint(found, logits, ids, length):
            return answer(hint)
    return RIGHT


def _log_probability_hint(
    found: float, logits: torch.Tensor, ids: torch.Tensor, length: int
) -> str | None:
    log_p, follows = logits[0].log_softmax(dim=-1), ids[0]  # [N, V], [N]
    shifted = log_p[:-1].gather(1, follows[1:, None])[:, 0]  # of ids 1 … N − 1
    right = float(shifted[length - 1 :].sum())
    mistakes = {
        "position t scores token t + 1: shift ids and logits against each other": float(
            log_p.gather(1, follows[:, None])[length:].sum()
        ),
        "the prompt is given; only the tokens after it count": float(shifted.sum()),
        "that is the probability; return its logarithm": math.exp(right),
        "these are sums of raw logits: a logit says nothing without the rest of its row": float(
            logits[0, :-1].gather(1, follows[1:, None])[length - 1 :].sum()
        ),
    }
    if math.isclose(found, right, rel_tol=1e-4):
        return None
    for hint, wrong in mistakes.items():
        if math.isclose(found, wrong, rel_tol=1e-4):
            return hint
    return f"for {ids.tolist()} with a prompt of {length} your function gives {found}"


# --- details --------------------------------------------------------------------------------------


def _pair(result: Any) -> tuple[str, str, float] | None:
    try:
        pair, probability = plain(result)
        first, second = pair
    except Exception:  # the value's own code may raise anything
        return None
    joint = number(probability)
    if joint is None or not all(isinstance(part, str) for part in (first, second)):
        return None
    return None if isinstance(pair, str) else (first, second, joint)


def _path(tree: Tree, score: Callable[[Tree, str, str], Any]) -> tuple[str, str]:
    pairs = [(first, second) for first in tree for second in tree[first][1]]
    return max(pairs, key=lambda pair: score(tree, *pair))


def _joint(tree: Tree, first: str, second: str) -> float:
    return tree[first][0] * tree[first][1][second]


def _conditional(tree: Tree, first: str, second: str) -> float:
    return tree[first][1][second]


def _greedy_score(tree: Tree, first: str, second: str) -> tuple[float, float]:
    return tree[first][0], tree[first][1][second]
