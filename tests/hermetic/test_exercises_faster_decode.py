"""The checks of `18_faster_decode` accept a right answer and name the likely mistakes."""

import numpy as np
import pytest
import torch

from inside_generate.exercises.checking import RIGHT, UNTRIED
from inside_generate.exercises.faster_decode import (
    check_exact,
    check_floor,
    check_int8,
    check_speedup,
)


def int8(weight, largest=127, rounding=torch.round):
    scale = weight.abs().amax(dim=-1) / largest
    return rounding(weight / scale[:, None]).to(torch.int8), scale


def int8_of_all(weight):
    scale = weight.abs().max() / 127
    return (weight / scale).round().to(torch.int8), scale.expand(len(weight))


def largest(ours, theirs):
    return (ours - theirs).abs().max()


@pytest.mark.parametrize(
    ("check", "function", "said"),
    [
        (check_floor, lambda b, rate: b / rate / 1e6, RIGHT),
        (check_floor, lambda b, rate: np.float64(b) / (rate * 1e6), RIGHT),
        (check_floor, lambda b, rate: b / rate / 1e9, "those are seconds"),
        (check_floor, lambda b, rate: 1e3 * b / (rate * 2**30), "of 10⁹ bytes"),
        (check_floor, lambda b, rate: rate * 1e9 / b, "tokens a second"),
        (check_floor, lambda b, rate: "soon", "gives 'soon'"),
        (check_floor, 31.0, "asks for a function"),
        (check_speedup, lambda w, k, f: (w + k) / (w / f + k), RIGHT),
        (check_speedup, lambda w, k, f: 1 / ((w / f + k) / (w + k)), RIGHT),
        (check_speedup, lambda w, k, f: f, "do not shrink"),
        (check_speedup, lambda w, k, f: (w / f + k) / (w + k), "the time that is left"),
        (check_speedup, lambda w, k, f: (w + k) / (w + k / f), "weights that shrink"),
        (check_exact, lambda a, b, t: bool(largest(a, b) <= t), RIGHT),
        (check_exact, lambda a, b, t: largest(a, b) <= t, RIGHT),
        (check_exact, lambda a, b, t: not largest(a, b) > t, "NaN is not a number"),
        (check_exact, lambda a, b, t: bool((a - b).max() <= t), "take its size"),
        (check_exact, lambda a, b, t: bool((b - a).max() <= t), "take its size"),
        (check_exact, lambda a, b, t: torch.equal(a.argmax(-1), b.argmax(-1)), "compare"),
        (check_exact, lambda a, b, t: bool(largest(a[0], b[0]) <= t), "every step"),
        (check_exact, lambda a, b, t: bool(largest(a[-1], b[-1]) <= t), "every step"),
        (check_exact, lambda a, b, t: bool((a - b).abs().mean() <= t), "every step"),
        (check_exact, lambda a, b, t: torch.equal(a, b), "below the tolerance is rounding"),
        (check_exact, lambda a, b, t: 3, "return True or False, not 3"),
        (check_int8, int8, RIGHT),
        (check_int8, lambda w: (int8(w)[0], int8(w)[1][:, None].numpy()), RIGHT),
        (check_int8, lambda w: int8(w, rounding=torch.trunc), "round to the nearest"),
        (check_int8, lambda w: int8(w, largest=60), "should become 127"),
        (check_int8, int8_of_all, "a scale of its own"),
        (check_int8, lambda w: (int8(w)[0].float(), int8(w)[1]), "dtype torch.int8"),
        (check_int8, lambda w: (int8(w)[0], 1 / int8(w)[1]), "give the weights back"),
        (check_int8, lambda w: (int8(w)[0], 1.0), "one scale for each row"),
        (check_int8, lambda w: int8(w)[0], "a pair"),
        (check_int8, lambda w: w.no_such_thing, "AttributeError"),
    ],
)
def test_a_check_knows_right_from_likely_wrong(check, function, said):
    assert said in check(function)


@pytest.mark.parametrize("check", [check_floor, check_speedup, check_exact, check_int8])
def test_an_untouched_exercise_says_so(check):
    assert check(...) == UNTRIED
    assert check(lambda *_: ...) == UNTRIED
