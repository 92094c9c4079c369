"""Number formats: the table, the gap between numbers, and what each format makes of a value."""

import math
import re

import pytest
import torch

from inside_generate.formats import (
    FORMATS,
    dequantise,
    float_bits,
    html_table,
    quantise,
    round_to_tf32,
    rounded,
)

# bits that carry a number, bytes in memory, exponent, mantissa
PUBLISHED = {
    "FP64": (64, 8, 11, 52),
    "FP32": (32, 4, 8, 23),
    "TF32": (19, 4, 8, 10),
    "FP16": (16, 2, 5, 10),
    "BF16": (16, 2, 8, 7),
    "FP8 E4M3": (8, 1, 4, 3),
    "FP8 E5M2": (8, 1, 5, 2),
    "INT8": (8, 1, None, None),
    "INT4": (4, 0.5, None, None),
}
FLOATS = [name for name, one in FORMATS.items() if one.exponent is not None]
TORCH_FLOATS = [name for name in FLOATS if FORMATS[name].dtype is not None]


def test_the_table_holds_the_published_bits():
    table = {
        name: (one.bits, one.bytes, one.exponent, one.mantissa) for name, one in FORMATS.items()
    }
    assert table == PUBLISHED


@pytest.mark.parametrize("name", TORCH_FLOATS)
def test_a_torch_formats_ends_follow_from_its_bits(name):
    one, info = FORMATS[name], torch.finfo(FORMATS[name].dtype)
    assert one.smallest_normal == info.smallest_normal
    assert one.spacing(1.0) == info.eps
    assert one.largest == info.max


def test_float_bits_are_not_those_of_a_neighbour():
    assert float_bits(torch.float16) == (16, 5, 10)
    assert float_bits(torch.bfloat16) == (16, 8, 7)


def test_tf32_ends_where_fp32_cut_to_10_bits_ends():
    largest = torch.tensor(FORMATS["TF32"].largest)
    assert round_to_tf32(largest) == largest
    assert largest + FORMATS["TF32"].spacing(float(largest)) == math.inf


@pytest.mark.parametrize("name", ["FP16", "BF16"])
@pytest.mark.parametrize("value", [18.0, 1.0, 0.1, 2.0**-14, 2.0**-15, 256.0, 60000.0])
def test_the_gap_is_the_distance_to_the_next_number(name, value):
    dtype = FORMATS[name].dtype
    here = torch.tensor(value, dtype=dtype)
    upward = torch.nextafter(here, torch.tensor(math.inf, dtype=dtype))
    assert FORMATS[name].spacing(here.item()) == (upward.double() - here.double()).item()


def test_the_gap_at_zero_is_the_smallest_number():
    assert FORMATS["FP16"].spacing(0.0) == 2.0**-24


@pytest.mark.parametrize("value", [65536.0, -1e9, math.inf, math.nan])
def test_beyond_the_range_there_is_no_gap(value):
    with pytest.raises(ValueError, match=r"beyond the largest number of FP16"):
        FORMATS["FP16"].spacing(value)


def test_whole_numbers_have_no_gap_of_their_own():
    with pytest.raises(ValueError, match="INT4 holds whole numbers"):
        FORMATS["INT4"].spacing(1.0)


def test_tf32_keeps_10_bits_and_goes_to_the_even_neighbour():
    up, down = 1 + 3 * 2**-11, 1 + 2**-11
    values = torch.tensor([down, up, -down, -up, 1 + 2**-10, 2 - 2**-12])
    even = [1.0, 1 + 2**-9, -1.0, -(1 + 2**-9), 1 + 2**-10, 2.0]
    assert round_to_tf32(values).tolist() == even


def test_tf32_is_fp16_where_fp16_has_full_precision():
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0)) + 3
    assert torch.equal(round_to_tf32(values), values.half().float())


def test_tf32_leaves_what_is_no_number_alone():
    values = torch.tensor([math.inf, -math.inf, math.nan])
    assert torch.equal(round_to_tf32(values)[:2], values[:2])
    assert round_to_tf32(values)[2].isnan()


def test_tf32_of_another_dtype_is_refused():
    with pytest.raises(ValueError, match=r"float32 values, not torch\.float64"):
        round_to_tf32(torch.ones(1, dtype=torch.float64))


@pytest.mark.parametrize("name", FLOATS)
def test_a_value_is_held_within_half_a_gap(name):
    value = 17.9
    held = rounded(torch.tensor([value], dtype=torch.float64), FORMATS[name])
    assert held.dtype == torch.float64
    assert abs(held.item() - value) <= FORMATS[name].spacing(value) / 2 * (1 + 1e-6)


def test_two_logits_become_one_in_bf16_only():
    logits = torch.tensor([18.03, 18.06])
    same = [name for name in ("FP32", "TF32", "FP16", "BF16") if _all_equal(logits, name)]
    assert same == ["BF16"]


def _all_equal(values, name):
    return len(set(rounded(values, FORMATS[name]).tolist())) == 1


def test_each_row_has_its_own_scale_and_its_largest_becomes_127():
    values = torch.tensor([[0.5, -1.0, 0.24], [8.0, 3.0, -2.0], [0.0, 0.0, 0.0]])
    codes, scale = quantise(values)
    assert codes.dtype == torch.int8
    assert codes.abs().amax(-1).tolist() == [127, 127, 0]
    assert scale.shape == (3, 1)
    assert bool(((dequantise(codes, scale) - values).abs() <= scale / 2 + 1e-6).all())


def test_fewer_bits_have_fewer_codes():
    codes, _ = quantise(torch.linspace(-1, 1, 1001), bits=4)
    assert codes.unique().tolist() == list(range(-7, 8))


@pytest.mark.parametrize("bits", [1, 9])
def test_other_numbers_of_bits_are_refused(bits):
    with pytest.raises(ValueError, match=f"not {bits}"):
        quantise(torch.ones(2), bits=bits)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_what_is_not_finite_is_not_quantised(value):
    with pytest.raises(ValueError, match="only finite values"):
        quantise(torch.tensor([1.0, value]))


def test_the_table_has_a_row_a_format_and_says_what_is_no_bit():
    table = html_table(FORMATS.values())
    assert re.findall(r'<th scope="row">([^<]+)</th>', table) == list(FORMATS)
    assert "<td>19 of 32 stored</td>" in table
    rows = re.findall(r"<tr>(.*?)</tr>", table)
    assert {len(re.findall("<t[hd]", row)) for row in rows} == {8}
    assert '<th scope="row">INT4</th><td>4</td><td>0.5</td><td>–</td><td>–</td>' in table


@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float16, torch.float64])
def test_the_largest_of_a_row_becomes_127_in_every_dtype(dtype):
    values = torch.tensor([[-128, 5, 3], [100, 3, 1], [7, 99, 2]]).to(dtype)
    codes, scale = quantise(values)
    assert codes.abs().amax(-1).tolist() == [127, 127, 127]
    assert codes[0].tolist() == [-127, 5, 3]
    assert torch.allclose(dequantise(codes, scale).double(), values.double(), atol=0.51)


@pytest.mark.parametrize("bits", [4.0, 7.5, True, None, "8"])
def test_bits_are_a_whole_number(bits):
    with pytest.raises(ValueError, match=f"a whole number from 2 to 8, not {bits!r}"):
        quantise(torch.ones(2), bits=bits)


@pytest.mark.parametrize("values", [torch.zeros(3, 0), torch.tensor([1j])])
def test_a_row_without_real_numbers_is_not_quantised(values):
    with pytest.raises(ValueError, match=r"real numbers, one at least, not torch\.\w+ of shape \["):
        quantise(values)


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.complex64])
def test_what_is_no_float_dtype_has_no_float_bits(dtype):
    with pytest.raises(ValueError, match=f"{dtype} is no format of floating-point numbers"):
        float_bits(dtype)
