"""The checks of `11_performance` accept a right answer and name the likely mistakes."""

import math
from statistics import mean, median

import pytest

from inside_generate import kv_cache_bytes, weight_bytes
from inside_generate.cache import with_kv_heads
from inside_generate.exercises.checking import RIGHT
from inside_generate.exercises.performance import (
    QueueingDevice,
    check_break_even,
    check_keys_read,
    check_rows,
    check_timer,
    check_tpot,
)


def right_tpot(total, ttft, tokens):
    return None if tokens == 1 else (total - ttft) / (tokens - 1)


def keys_read(length, tokens):
    return sum(length + n for n in range(1, tokens))


@pytest.mark.parametrize(
    ("check", "function", "said"),
    [
        (check_keys_read, keys_read, RIGHT),
        (check_keys_read, lambda n, t: keys_read(n, t + 1) - 0, "T − 1 decode steps"),
        (check_keys_read, lambda n, t: keys_read(n, t) - (t - 1), "its own token"),
        (check_keys_read, lambda n, t: n + t * (t - 1) // 2, "reads the prompt again"),
        (check_keys_read, lambda n, t: (t - 1) * n, "grows with each step"),
        (check_keys_read, lambda n, t: n + t - 1, "not how many were read"),
        (check_keys_read, lambda n, t: "many", "gives 'many'"),
        (check_keys_read, 3, "asks for a function"),
        (check_tpot, right_tpot, RIGHT),
        (check_tpot, lambda total, ttft, tokens: total / tokens, "take it off"),
        (check_tpot, lambda total, ttft, tokens: total / (tokens - 1), "take it off"),
        (check_tpot, lambda total, ttft, tokens: (total - ttft) / tokens, "T − 1 others"),
        (check_tpot, lambda total, ttft, tokens: (total - ttft) / (tokens - 1), "ZeroDivision"),
        (check_tpot, lambda *all: right_tpot(*all) or 0.0, "return None, not 0.0"),
        (check_tpot, lambda *all: float("nan"), "you give nan"),
        (check_tpot, lambda *all: [1], "return a number of seconds"),
        (check_tpot, lambda *all: None, "is there a `return`"),
        (check_tpot, 3, "TypeError"),
    ],
)
def test_a_check_knows_right_from_likely_wrong(check, function, said):
    assert said in check(function)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda c: weight_bytes(c) / kv_cache_bytes(c, 1), RIGHT),
        (lambda c: weight_bytes(c) // kv_cache_bytes(c, 1), RIGHT),
        (lambda c: 2 * weight_bytes(c) / kv_cache_bytes(c, 1), "both sides need the same dtype"),
        (lambda c: weight_bytes(c) / kv_cache_bytes(c, 2), "same number of bytes"),
        (lambda c: weight_bytes(c) / kv_cache_bytes(with_kv_heads(c, 4), 1), "count KV heads"),
        (lambda c: kv_cache_bytes(c, 1) / weight_bytes(c), "times the right one"),
        (lambda c: float("nan"), "times the right one"),
        (lambda c: "far", "return a number of tokens"),
        (lambda c: c.no_such_thing, "AttributeError"),
    ],
)
def test_the_break_even_check(model, function, said):
    config = with_kv_heads(model.config, 1)  # 4 query heads on one: a factor of its own
    assert said in check_break_even(function, config)


def test_the_break_even_check_sees_a_forgotten_layer_axis(model):
    config = model.config
    per_layer = kv_cache_bytes(config, 1) / config.num_hidden_layers
    assert "every layer" in check_break_even(lambda c: weight_bytes(c) / per_layer, config)


def timer(run, clock, synchronize, repeats, *, warm=1, first=True, last=True, middle=median):
    for _ in range(warm):
        run()
    seconds = []
    for _ in range(repeats):
        if first:
            synchronize()
        start = clock()
        run()
        if last:
            synchronize()
        seconds.append(clock() - start)
    return middle(seconds)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, RIGHT),
        ({"warm": 0}, "run once before"),
        ({"warm": 2}, "yours were 7"),
        ({"first": False, "last": False}, "nobody waits"),
        ({"last": False}, "still queued"),
        ({"first": False}, "still queued"),
        ({"middle": mean}, "that is the mean"),
        ({"middle": min}, "you give 1.0"),
        ({"middle": list}, "return a number of seconds"),
    ],
)
def test_the_timers_check(changes, said):
    assert said in check_timer(lambda *all: timer(*all, **changes))


def test_a_queueing_device_is_done_only_when_waited_for():
    device = QueueingDevice([2.0])
    device.run()
    device.run()
    assert device.clock() == 0.0
    device.synchronize()
    assert device.clock() == 4.0


def rows_to_compute(flops, weights, cached, rate, bandwidth):
    closes = flops / rate - cached / bandwidth
    return math.ceil(weights / bandwidth / closes) if closes > 0 else None


def smallest_by_trying(flops, weights, cached, rate, bandwidth):
    computes = (n for n in range(1, 99) if n * flops / rate >= (weights + n * cached) / bandwidth)
    return next(computes, None)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (rows_to_compute, RIGHT),
        (smallest_by_trying, RIGHT),
        (lambda f, w, c, r, b: math.ceil(w * r / (f * b)), "keys and values of its own"),
        (lambda *all: (rows_to_compute(*all) or 1) - 0.5, "rounded up"),
        (lambda *all: (rows_to_compute(*all) or 1) - 1, "rounded up"),
        (lambda *all: rows_to_compute(*all) or 20, "no number will do; return None, not 20"),
        (lambda *all: None, "not None"),
        (lambda *all: "many", "not 'many'"),
        (lambda f, w, c, r, b: 1 / 0, "ZeroDivisionError"),
        (3, "TypeError"),
        (lambda *all: ..., "Not yet"),
        (..., "Not yet"),
    ],
)
def test_the_check_of_rows_knows_right_from_likely_wrong(function, said):
    assert said in check_rows(function)
