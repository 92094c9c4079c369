"""The checks of the exercises in `a1_number_formats`."""

from __future__ import annotations

import math
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
)
from inside_generate.formats import FORMATS, quantise

MATRICES = (
    torch.tensor([[0.5, -1.0, 0.24], [8.0, 3.06, -2.0]]),
    torch.tensor([[1.0, -127.0], [0.0, 0.0]]),
    torch.tensor([[-3.0, 0.1, 2.99, 0.7]]),
)


def check_counting_limit(value: Any) -> str:
    """Check the prediction: where adding 1 stops to change a TF32 number."""
    if value is ...:
        return UNTRIED
    found = number(value)
    if found is None:
        return answer(f"this asks for a whole number, not for {shown(value)}")
    hints = {
        2.0**10: "there the gap becomes 1, and adding 1 still works; when is the gap too wide?",
        2.0**8: "that is BF16's limit; how many mantissa bits has TF32?",
        2.0**24: "that is the limit of FP32, which keeps all its mantissa bits",
        2.0**12: "there the gap is 4 already; where does it become 2?",
        FORMATS["FP16"].largest: "that is where FP16's range ends; here precision ends first",
    }
    known = hints.get(found, "count the mantissa bits, and find where the gap becomes 2")
    return answer(None if found == 2**11 else known)


def check_spacing(function: Any) -> str:
    """Check ``function(x, mantissa)``: the gap from ``x`` to the next larger number."""
    cases = {
        (x, mantissa): 2.0 ** (math.floor(math.log2(x)) - mantissa)
        for x in (18.0, 1.0, 0.1, 256.0, 300.0)
        for mantissa in (7, 10)
    }
    return check_table(
        function,
        cases,
        {
            "that is the gap just above 1; around a larger number it is wider": (
                lambda _, mantissa: 2.0**-mantissa
            ),
            "the gap does not grow with every number: between two powers of 2 it is the same": (
                lambda x, mantissa: x * 2.0**-mantissa
            ),
            "round the logarithm down: 0.1 lies between a 16th and an 8th": (
                lambda x, mantissa: 2.0 ** (int(math.log2(x)) - mantissa)
            ),
            "round the logarithm down: the power of 2 that is not above x": (
                lambda x, mantissa: 2.0 ** (math.ceil(math.log2(x)) - mantissa)
            ),
            "without rounding the logarithm you get x itself, scaled": (
                lambda x, mantissa: 2.0 ** (math.log2(x) - mantissa)
            ),
        },
    )


def check_quantised_bytes(function: Any) -> str:
    """Check ``function(weights, bits, group)``: bytes of codes and of scales of 16 bits."""
    cases = {
        (weights, bits, group): weights * bits / 8 + weights / group * 2
        for weights in (1024, 4096)
        for bits, group in ((4, 32), (8, 128), (4, 64))
    }
    return check_table(
        function,
        cases,
        {
            "the scales take room, too": lambda weights, bits, _: weights * bits / 8,
            "these are bits: the question is about bytes": (
                lambda weights, bits, group: weights * bits + weights / group * 16
            ),
            "a scale of 16 bits takes 2 bytes": (
                lambda weights, bits, group: weights * bits / 8 + weights / group * 16
            ),
            "one scale for a whole group, not for each weight": (
                lambda weights, bits, _: weights * bits / 8 + weights * 2
            ),
            "there are many groups: how many?": (lambda weights, bits, _: weights * bits / 8 + 2),
        },
    )


def check_quantise(function: Any) -> str:
    """Check ``function(values)``: INT8 codes and one scale for each row."""
    if function is ...:
        return UNTRIED
    for values in MATRICES:
        result, error = attempt(function, values.clone())
        if result is ...:
            return UNTRIED
        if hint := error or _quantise_hint(result, values):
            return answer(hint)
    return RIGHT


def _quantise_hint(result: Any, values: torch.Tensor) -> str | None:
    """Return what is wrong with one pair of codes and scale, or ``None``."""
    pair = isinstance(result, tuple | list) and len(result) == 2
    codes, scale = (real_tensor(part) for part in result) if pair else (None, None)
    if codes is None or scale is None:
        return "return two tensors of real numbers, codes and scale"
    right_codes, right_scale = quantise(values)
    if codes.shape != values.shape or codes.dtype != torch.int8:
        return f"codes must be int8 {list(values.shape)}, not {codes.dtype} {list(codes.shape)}"
    if scale.shape != right_scale.shape:
        return f"one scale for each row, {list(right_scale.shape)}, not {list(scale.shape)}"
    scale = scale.double()
    if not bool(scale.isfinite().all()) or bool((scale == 0).any()):
        return "a row of zeros must not be divided by 0"
    if bool((scale < 0).any()):
        return "a scale is a size, above 0; the sign is the code's"
    used = values.abs().amax(dim=-1) > 0  # a row of zeros may have any scale
    ratio = (scale / right_scale.double())[used]
    if torch.allclose(ratio, ratio.new_full((), 127 / 128), rtol=1e-4):
        return "128 is no code of 8 bits with a sign: the largest is 127"
    if not torch.allclose(ratio, ratio.new_ones(()), rtol=1e-4):
        return "the largest magnitude of each row, of both signs, must become 127"
    if torch.equal(codes, right_codes):
        return None
    if torch.equal(codes, (values / right_scale).to(torch.int8)):
        return "round before you change the dtype: that change cuts"
    return f"for {values.tolist()} the codes should be {right_codes.tolist()}"
