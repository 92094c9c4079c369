"""The checks of the exercises in `11_performance`."""

from __future__ import annotations

import copy
import math
from statistics import mean, median
from typing import Any

from inside_generate.cache import kv_cache_bytes, kv_heads, weight_bytes
from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    number,
    shown,
)


def check_keys_read(function: Any) -> str:
    """Check ``function(L, T)``: keys that a layer reads in decode, all steps together."""

    def right(length: int, tokens: int) -> int:
        return (tokens - 1) * length + tokens * (tokens - 1) // 2

    cases = {(n, t): right(n, t) for n in (1, 8, 35) for t in (1, 2, 13)}
    return check_table(
        function,
        cases,
        {
            "the step count is off by one: T tokens take T − 1 decode steps": (
                lambda n, t: t * n + t * (t + 1) // 2
            ),
            "does a step see its own token? Step n reads L + n keys": (
                lambda n, t: right(n, t) - (t - 1)
            ),
            "each step reads the prompt again": lambda n, t: n + t * (t - 1) // 2,
            "the context grows with each step": lambda n, t: (t - 1) * n,
            "that is how many tokens the cache holds at the end, not how many were read": (
                lambda n, t: n + t - 1
            ),
        },
    )


def check_tpot(function: Any) -> str:
    """Check ``function(total_s, ttft_s, tokens)``: TPOT in seconds, ``None`` for one token."""
    if function is ...:
        return UNTRIED
    for total_s, ttft_s, tokens in ((1.5, 1.0, 5), (3.0, 1.0, 2), (2.25, 0.25, 17)):
        result, error = attempt(function, total_s, ttft_s, tokens)
        if result is ...:
            return UNTRIED
        right = (total_s - ttft_s) / (tokens - 1)
        hints = {
            total_s / tokens: "the first token's time is not decode's: take it off",
            (total_s - ttft_s) / tokens: "after the first token there are T − 1 others",
            total_s / (tokens - 1): "the first token's time is not decode's: take it off",
        }
        found = number(result)
        if error or found is None:
            return answer(error or f"return a number of seconds, not {shown(result)}")
        if not abs(found - right) < 1e-9:
            where = f"for {total_s} s in all, {ttft_s} s to the first of {tokens} tokens"
            return answer(hints.get(found, f"{where}, you give {found}"))
    return _check_single_token(function)


def _check_single_token(function: Any) -> str:
    # `None` is the right result here, and `attempt` takes it for a forgotten return: wrap it.
    wrapped, error = attempt(lambda: (function(1.0, 1.0, 1),))
    if error:
        return answer(f"for a single token {error}")
    wrong = f"a single token has no TPOT: return None, not {shown(wrapped[0])}"
    return answer(None if wrapped[0] is None else wrong)


def check_break_even(function: Any, config: Any) -> str:
    """Check ``function(config)``: context whose keys and values weigh like the weights."""
    if function is ...:
        return UNTRIED
    for layers in (1, 3):  # a smaller model, so that it is counted at once
        changed = copy.deepcopy(config)
        changed.num_hidden_layers = layers
        if getattr(changed, "layer_types", None):
            changed.layer_types = changed.layer_types[:1] * layers
        result, error = attempt(function, copy.deepcopy(changed))
        if result is ...:
            return UNTRIED
        found = number(result)
        if error or found is None:
            return answer(error or f"return a number of tokens, not {shown(result)}")
        right = weight_bytes(changed) / kv_cache_bytes(changed, 1)
        share = config.num_attention_heads // kv_heads(config)
        if not abs(found - right) <= 1:
            return answer(_break_even_hint(found / right, share, layers))
    return RIGHT


def _break_even_hint(factor: float, share: int, layers: int) -> str:
    hints = {
        2.0: "a factor 2: keys and values are two tensors, and both sides need the same dtype",
        0.5: "a factor 2: do both sides use the same number of bytes for a number?",
        1 / share: "count KV heads, not query heads",
        float(layers): "every layer has keys and values of its own",
    }
    near = (hint for known, hint in hints.items() if abs(factor - known) < 0.01 * known)
    return next(near, f"with {layers} layer(s) your answer is {factor:.3g} times the right one")


def check_rows(function: Any) -> str:
    """Check ``function(flops, weights, cached, rate, bandwidth)``: rows that make a step compute.

    The smallest number of rows for which computing takes as long as reading, at least; ``None``
    where there is none. ``flops`` and ``cached`` (bytes of keys and values) are one row's.
    """
    if function is ...:
        return UNTRIED
    cases = (
        (2e9, 1.1e9, 0, 1e12, 1e11),
        (2e9, 1.1e9, 2e8, 3e11, 1e11),
        (2e9, 1e9, 1e8, 4e12, 1e11),
    )
    for case in cases:
        # A right `None` would be taken for a forgotten return: wrap it.
        wrapped, error = attempt(lambda case=case: (function(*case),))
        if error or wrapped[0] is ...:
            return answer(error) if error else UNTRIED
        if hint := _rows_hint(wrapped[0], *case):
            return answer(hint)
    return RIGHT


def _rows_hint(found: Any, flops: float, weights: float, cached: float, *speeds: float) -> str:
    """Return what is wrong with the number of rows, or nothing."""
    rate, bandwidth = speeds
    gain = flops / rate - cached / bandwidth  # seconds that a row adds to computing over reading
    where = f"{flops:g} FLOP and {cached:g} bytes a row, {weights:g} bytes of weights"
    if gain <= 0:
        never = f"{where}: each row adds more reading than computing, so no number will do"
        return "" if found is None else f"{never}; return None, not {shown(found)}"
    rows, alone = number(found), weights * rate / (flops * bandwidth)
    right = math.ceil(round(weights / bandwidth / gain, 6))
    if rows == right:
        return ""
    if rows == math.ceil(round(alone, 6)):
        return "each row brings keys and values of its own, which are read as well"
    if rows is not None and abs(rows - weights / bandwidth / gain) < 1:
        return "a whole number of rows, rounded up: with one less, reading still takes longer"
    return (
        f"{where}: {right - 1} rows still take longer to read, {right} do not, not {shown(found)}"
    )


class QueueingDevice:
    """A device that works later: ``run`` only queues, ``synchronize`` waits, ``clock`` does not.

    ``log`` keeps what was called, in order.
    """

    def __init__(self, costs_s: list[float]) -> None:
        self.log: list[str] = []
        self._costs_s = costs_s
        self._now_s = 0.0
        self._queued_s = 0.0

    def run(self) -> None:
        """Queue the next piece of work; what comes after the last one takes as long as it."""
        number = self.log.count("run")
        self.log.append("run")
        self._queued_s += self._costs_s[min(number, len(self._costs_s) - 1)]

    def synchronize(self) -> None:
        """Wait until nothing is queued."""
        self.log.append("synchronize")
        self._now_s += self._queued_s
        self._queued_s = 0.0

    def clock(self) -> float:
        """Return the time now, in seconds, whatever is queued."""
        self.log.append("clock")
        return self._now_s


def check_timer(function: Any) -> str:
    """Check ``function(run, clock, synchronize, repeats)``: the median seconds of ``run``."""
    if function is ...:
        return UNTRIED
    # Seconds of the warm-up and of the timed runs; neither the first, the middle nor the last of
    # them is the median. A warm-up that counts moves one of the two medians at least: it is the
    # slowest of all runs, or the fastest.
    for warm_up_s, costs_s in ((16.0, [1.0, 2.5, 4.0, 1.5, 9.0]), (0.5, [9.0, 1.0, 4.0, 2.5, 1.5])):
        device = QueueingDevice([warm_up_s, *costs_s])
        result, error = attempt(
            function, device.run, device.clock, device.synchronize, len(costs_s)
        )
        if result is ...:
            return UNTRIED
        found = number(result)
        if error or found is None:
            return answer(error or f"return a number of seconds, not {shown(result)}")
        if hint := _timer_hint(device.log, len(costs_s)) or _median_hint(found, warm_up_s, costs_s):
            return answer(hint)
    return RIGHT


def _median_hint(found: float, warm_up_s: float, costs_s: list[float]) -> str | None:
    if abs(found - mean(costs_s)) < 1e-9:
        return "that is the mean: one slow run moves it; the median stays"
    runs = f"a warm-up of {warm_up_s} s and runs of {costs_s} s"
    right = median(costs_s)
    wrong = f"{runs} have the median {right} s, you give {found}: which runs count?"
    return None if abs(found - right) < 1e-9 else wrong


def _timer_hint(log: list[str], repeats: int) -> str | None:
    """Return what is wrong with the order of calls, or ``None``."""
    runs = log.count("run")
    if runs == repeats:
        return "run once before the first timed run: the first time is slower, and does not count"
    if runs != repeats + 1:
        return f"{repeats} timed runs and a warm-up are {repeats + 1} runs, yours were {runs}"
    if "synchronize" not in log:
        return "nobody waits for the device: the clock is read while the work is still queued"
    return _queued_at_start(log)


def _queued_at_start(log: list[str]) -> str | None:
    queued = False
    for call in log:
        if call == "clock" and queued:
            return "work is still queued when a clock is read: wait for the device first"
        queued = call == "run" or (queued and call != "synchronize")
    return None
