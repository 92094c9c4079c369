"""The checks of the exercises in `18_faster_decode`."""

from __future__ import annotations

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
    real_tensor,
    shown,
    truth,
)


def check_floor(function: Any) -> str:
    """Check ``function(bytes_per_token, gb_per_s)``: the least milliseconds a token can take."""
    sizes = ((b, rate) for b in (10**9, 988_065_536) for rate in (32, 4800))
    return _check_numbers(
        function,
        {size: 1e3 * size[0] / (size[1] * 1e9) for size in sizes},
        {
            "those are seconds: a second has a thousand milliseconds": (
                lambda b, rate: b / (rate * 1e9)
            ),
            "GB here are of 10⁹ bytes, and ms are wanted": lambda b, rate: 1e3 * b / (rate * 2**30),
            "that is how many tokens a second has": lambda b, rate: rate * 1e9 / b,
            "divide the bytes by the bytes a millisecond": lambda b, rate: b / rate,
        },
    )


def check_speedup(function: Any) -> str:
    """Check ``function(weights, cached, factor)``: how much faster a step with smaller weights is.

    Time follows the bytes; weights shrink by ``factor``, keys and values stay.
    """
    cases = {
        (weights, cached, factor): (weights + cached) / (weights / factor + cached)
        for weights, cached in ((900, 100), (1000, 0), (500, 1500))
        for factor in (2, 4)
    }
    return _check_numbers(
        function,
        cases,
        {
            "the keys and values do not shrink": lambda _w, _k, factor: float(factor),
            "that is the time that is left, not how many times faster": (
                lambda w, k, factor: (w / factor + k) / (w + k)
            ),
            "it is the weights that shrink, not the keys and values": (
                lambda w, k, factor: (w + k) / (w + k / factor)
            ),
        },
    )


def _check_numbers(
    function: Any,
    cases: Mapping[tuple[Any, ...], float],
    mistakes: Mapping[str, Callable[..., float]],
) -> str:
    """Check against a table of numbers, to nine digits: sums may be done in another order."""

    def rounded(of: Any) -> Any:
        def call(*arguments: Any) -> Any:
            result = of(*arguments)
            found = number(result)
            return result if found is None else float(f"{found:.9g}")

        return call if callable(of) else of

    table = {arguments: float(f"{right:.9g}") for arguments, right in cases.items()}
    return check_table(
        rounded(function), table, {hint: rounded(made) for hint, made in mistakes.items()}
    )


def check_exact(function: Any) -> str:
    """Check ``function(ours, theirs, tolerance)`` over logits [T, V] of the same tokens."""
    if function is ...:
        return UNTRIED
    ours = torch.tensor([[1.0, 5.0, 2.0], [4.0, 0.0, 1.0]])
    higher, lower = ours + 0.75, ours - 0.75
    off = torch.tensor([0.75, -0.75, 0.75])
    late, early = ours.clone(), ours.clone()  # off at the second step only, and at the first only
    late[1] += off
    early[0] += off
    near = ours + torch.tensor([[0.25, -0.25, 0.25], [-0.25, 0.25, -0.25]])
    unknown = ours.clone()
    unknown[1, 2] = float("nan")
    size = "compare the logits; a difference below zero counts as well: take its size"
    cases = [
        (near, True, "a difference below the tolerance is rounding, whichever sign it has"),
        (higher, False, size),
        (lower, False, size),
        (late, False, "look at every step: one that is off is enough"),
        (early, False, "look at every step: one that is off is enough"),
        (unknown, False, "NaN is not a number near another: such a rung is not exact"),
    ]
    for theirs, right, hint in cases:
        result, error = attempt(function, ours.clone(), theirs.clone(), 0.5)
        if result is ...:
            return UNTRIED
        found = truth(result)
        if error or found is None:
            return answer(error or f"return True or False, not {shown(result)}")
        if found is not right:
            return answer(hint)
    return RIGHT


def check_int8(function: Any) -> str:
    """Check ``function(weight)``: 8-bit integers [out, in] and a scale for each row, [out]."""
    if function is ...:
        return UNTRIED
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(4, 16, generator=generator) * torch.tensor([[1.0], [100.0], [0.01], [1.0]])
    for weight in (rows, rows.abs(), -rows.abs()):
        result, error = attempt(function, weight.clone())
        if result is ...:
            return UNTRIED
        parts = result if isinstance(result, tuple | list) and len(result) == 2 else None
        if error or parts is None:
            return answer(error or f"return integers and scales, a pair, not {shown(result)}")
        if hint := _int8_hint(weight, *parts):
            return answer(hint)
    return RIGHT


def _int8_hint(weight: torch.Tensor, integers: Any, scales: Any) -> str | None:
    """Return what is wrong with the integers or the scales of ``weight``, [out, in]."""
    if not isinstance(integers, torch.Tensor) or integers.dtype != torch.int8:
        return "the first of the pair must be a tensor of dtype torch.int8: `.to(torch.int8)`"
    scale = real_tensor(scales)
    if integers.shape != weight.shape or scale is None or scale.numel() != len(weight):
        return "there must be an integer for each weight, and one scale for each row"
    scale = scale.reshape(-1, 1).double()
    largest = number(integers.abs().max())
    back = integers.double() * scale
    error = (back - weight.double()).abs()
    allowed = weight.abs().amax(dim=-1, keepdim=True).double() / 127 / 2 * 1.01
    if bool((error <= allowed).all()):
        return None
    if bool((back - weight.double()).abs().mean() > weight.abs().double().mean()):
        return "integers times scales must give the weights back; integers run from −127 to 127"
    if largest is not None and largest < 100:
        return "the largest weight of a row should become 127 or −127, so that no step is wasted"
    if bool((error <= 2.02 * allowed).all()):
        return "round to the nearest integer: `.to(torch.int8)` alone cuts off"
    return "a weight is off by more than half a scale: has each row a scale of its own?"
