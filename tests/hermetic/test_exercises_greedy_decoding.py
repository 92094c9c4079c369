"""The checks of the chapter on greedy decoding accept right answers and name likely mistakes."""

import math

import pytest
import torch

from inside_generate.exercises import greedy_decoding as checks
from inside_generate.exercises.checking import RIGHT


def argmax(scores):
    best = 0
    for index, score in enumerate(scores):
        if score > scores[best]:
            best = index
    return best


def last_of_equals(scores):
    return max(range(len(scores)), key=lambda index: (scores[index], index))


def from_zero(scores):
    best, index = 0.0, 0
    for place, score in enumerate(scores):
        if score > best:
            best, index = score, place
    return index


def pairs(tree):
    return [
        ((first, second), p_first * p_second)
        for first, (p_first, then) in tree.items()
        for second, p_second in then.items()
    ]


def best_pair(tree):
    return max(pairs(tree), key=lambda pair: pair[1])


def greedy_pair(tree):
    first = max(tree, key=lambda name: tree[name][0])
    second = max(tree[first][1], key=lambda name: tree[first][1][name])
    return (first, second), tree[first][0] * tree[first][1][second]


def likeliest_second(tree):
    return max(pairs(tree), key=lambda pair: tree[pair[0][0]][1][pair[0][1]])


def tried(firsts, best_pairs):
    found = 0.0
    for count, (first, pair) in enumerate(zip(firsts, best_pairs, strict=True)):
        if first <= found:
            return count
        found = max(found, pair)
    return len(firsts)


def log_probability(logits, ids, length):
    log_p = logits[0, length - 1 : -1].log_softmax(-1)
    return log_p.gather(1, ids[0, length:, None]).sum()


def unshifted(logits, ids, length):
    return logits[0, length:].log_softmax(-1).gather(1, ids[0, length:, None]).sum()


TABLE = {
    (checks.check_argmax, "right"): (argmax, RIGHT),
    (checks.check_argmax, "a tensor"): (lambda z: torch.tensor(z).argmax(), RIGHT),
    (checks.check_argmax, "the score"): (max, "its index"),
    (checks.check_argmax, "last of equals"): (last_of_equals, "the first wins"),
    (checks.check_argmax, "begins at 0"): (from_zero, "below 0"),
    (checks.check_argmax, "lowest"): (lambda z: z.index(min(z)), "lowest"),
    (checks.check_argmax, "several"): (lambda z: torch.tensor(z), "gives"),
    (checks.check_argmax, "nothing"): (lambda z: None, "is there a `return`"),
    (checks.check_argmax, "an error"): (lambda z: z[99], "IndexError"),
    (checks.check_argmax, "a value"): (3, "asks for a function"),
    (checks.check_best_pair, "right"): (best_pair, RIGHT),
    (checks.check_best_pair, "greedy"): (greedy_pair, "greedy's path"),
    (checks.check_best_pair, "second alone"): (likeliest_second, "second probabilities alone"),
    (checks.check_best_pair, "a constant"): (lambda tree: (("A", "A2"), 0.051), "more probable"),
    (checks.check_best_pair, "a sum"): (lambda tree: (best_pair(tree)[0], 1.39), "not the product"),
    (checks.check_best_pair, "no probability"): (lambda tree: best_pair(tree)[0], "return (("),
    (checks.check_best_pair, "words"): (lambda tree: "B2", "return (("),
    (checks.check_best_pair, "nothing"): (lambda tree: None, "is there a `return`"),
    (checks.check_best_pair, "a value"): (("B", "B2"), "raised TypeError"),
    (checks.check_tried, "right"): (tried, RIGHT),
    (checks.check_tried, "one more"): (
        lambda f, p: min(tried(f, p) + 1, len(f)),
        "need not be tried",
    ),
    (checks.check_tried, "all"): (lambda f, p: len(f), "may stop before"),
    (checks.check_tried, "the winner"): (lambda f, p: p.index(max(p)) + 1, "up to the winner"),
    (checks.check_tried, "from 0"): (lambda f, p: tried(f, p) - 1, "how many, not which"),
    (checks.check_tried, "words"): (lambda f, p: "two", "gives 'two'"),
    (checks.check_log_probability, "right"): (log_probability, RIGHT),
    (checks.check_log_probability, "a float"): (lambda *all: log_probability(*all).item(), RIGHT),
    (checks.check_log_probability, "unshifted"): (unshifted, "scores token t + 1"),
    (checks.check_log_probability, "the prompt too"): (
        lambda z, ids, n: log_probability(z, ids, 1),
        "the prompt is given",
    ),
    (checks.check_log_probability, "no logarithm"): (
        lambda *all: math.exp(log_probability(*all)),
        "its logarithm",
    ),
    (checks.check_log_probability, "raw logits"): (
        lambda z, ids, n: z[0, n - 1 : -1].gather(1, ids[0, n:, None]).sum(),
        "raw logits",
    ),
    (checks.check_log_probability, "a constant"): (lambda *_: -1.0, "gives -1.0"),
    (checks.check_log_probability, "a row"): (lambda z, ids, n: z[0], "one number"),
    (checks.check_log_probability, "nothing"): (lambda *_: None, "is there a `return`"),
}


@pytest.mark.parametrize(("check", "name"), TABLE, ids=lambda part: getattr(part, "__name__", part))
def test_a_check_knows_right_from_likely_wrong(check, name):
    learners, said = TABLE[check, name]
    assert said in check(learners)
