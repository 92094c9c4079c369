"""The checks of `a1_number_formats` accept a right answer and name the likely mistakes."""

import math

import pytest
import torch

from inside_generate.exercises import number_formats as checks
from inside_generate.exercises.checking import RIGHT
from inside_generate.formats import quantise


def whole_matrix(values):
    scale = values.abs().amax().expand(len(values), 1) / 127
    return (values / scale).round().to(torch.int8), scale


def positive_only(values):
    scale = values.amax(dim=-1, keepdim=True) / 127
    scale = torch.where(scale > 0, scale, 1)
    return (values / scale).round().clamp(-127, 127).to(torch.int8), scale


def zeros_divided(values):
    scale = values.abs().amax(dim=-1, keepdim=True) / 127
    return (values / scale).round().nan_to_num().to(torch.int8), scale


def with_128(values):
    scale = values.abs().amax(dim=-1, keepdim=True) / 128
    scale = torch.where(scale > 0, scale, 1)
    return (values / scale).round().clamp(-128, 127).to(torch.int8), scale


def cut(values):
    _, scale = quantise(values)
    return (values / scale).to(torch.int8), scale


TABLE = {
    (checks.check_counting_limit, "right"): (2048, RIGHT),
    (checks.check_counting_limit, "as a float"): (2.0**11, RIGHT),
    (checks.check_counting_limit, "gap 1"): (1024, "the gap becomes 1"),
    (checks.check_counting_limit, "gap 4"): (4096, "the gap is 4 already"),
    (checks.check_counting_limit, "BF16"): (256, "that is BF16's limit"),
    (checks.check_counting_limit, "FP32"): (2**24, "the limit of FP32"),
    (checks.check_counting_limit, "range"): (65504, "range ends"),
    (checks.check_counting_limit, "another"): (3, "count the mantissa bits"),
    (checks.check_counting_limit, "words"): ("many", "not for 'many'"),
    (checks.check_counting_limit, "yes"): (True, "not for True"),
    (checks.check_spacing, "right"): (lambda x, m: 2.0 ** (math.floor(math.log2(x)) - m), RIGHT),
    (checks.check_spacing, "only at 1"): (lambda x, m: 2.0**-m, "just above 1"),
    (checks.check_spacing, "every number"): (lambda x, m: x * 2.0**-m, "with every number"),
    (checks.check_spacing, "toward zero"): (
        lambda x, m: 2.0 ** (int(math.log2(x)) - m),
        "0.1 lies between",
    ),
    (checks.check_spacing, "upward"): (
        lambda x, m: 2.0 ** (math.ceil(math.log2(x)) - m),
        "that is not above x",
    ),
    (checks.check_spacing, "raises"): (lambda x, m: 1 // 0, "ZeroDivisionError"),
    (checks.check_spacing, "words"): (lambda x, m: "wide", "your function gives 'wide'"),
    (checks.check_quantised_bytes, "right"): (lambda n, b, g: n * b / 8 + n / g * 2, RIGHT),
    (checks.check_quantised_bytes, "no scales"): (lambda n, b, g: n * b / 8, "scales take room"),
    (checks.check_quantised_bytes, "bits"): (lambda n, b, g: n * b + n / g * 16, "about bytes"),
    (checks.check_quantised_bytes, "16"): (lambda n, b, g: n * b / 8 + n / g * 16, "2 bytes"),
    (checks.check_quantised_bytes, "each weight"): (
        lambda n, b, g: n * b / 8 + n * 2,
        "not for each weight",
    ),
    (checks.check_quantised_bytes, "one group"): (lambda n, b, g: n * b / 8 + 2, "how many?"),
    (checks.check_quantise, "right"): (quantise, RIGHT),
    (checks.check_quantise, "a list"): (lambda values: list(quantise(values)), RIGHT),
    (checks.check_quantise, "one scale for all"): (whole_matrix, "largest magnitude of each row"),
    (checks.check_quantise, "positive only"): (positive_only, "of both signs"),
    (checks.check_quantise, "division by 0"): (zeros_divided, "must not be divided by 0"),
    (checks.check_quantise, "128"): (with_128, "the largest is 127"),
    (checks.check_quantise, "cut"): (cut, "that change cuts"),
    (checks.check_quantise, "codes only"): (lambda values: quantise(values)[0], "two tensors"),
    (checks.check_quantise, "floats"): (
        lambda values: (quantise(values)[0].float(), quantise(values)[1]),
        "must be int8",
    ),
    (checks.check_quantise, "flat scale"): (
        lambda values: (quantise(values)[0], quantise(values)[1][:, 0]),
        "one scale for each row",
    ),
    (checks.check_quantise, "constant codes"): (
        lambda values: (quantise(values)[0] * 0, quantise(values)[1]),
        "the codes should be",
    ),
    (checks.check_quantise, "nothing"): (lambda values: None, "is there a `return`"),
    (checks.check_quantise, "changes the input"): (
        lambda values: quantise(values.mul_(2)),
        "largest magnitude of each row",
    ),
}


@pytest.mark.parametrize(("check", "name"), TABLE, ids=lambda part: getattr(part, "__name__", part))
def test_a_check_knows_right_from_likely_wrong(check, name):
    learners, said = TABLE[check, name]
    assert said in check(learners)
