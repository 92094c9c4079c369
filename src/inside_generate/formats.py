"""Number formats: which bits a number has, what they can hold, and what they make of a value.

What it knows: the formats of the course's table. Whatever torch knows about one is read from
torch. TF32 is no dtype: it is how NVIDIA's matrix units read FP32 numbers. INT4 is a bare name in
torch, which can neither fill nor read such a tensor; its bits are said here. What it leaves to
others: what a model weighs (``cache``), how formats are drawn (``plots.formats``).
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class NumberFormat:
    """One way to write a number in bits."""

    name: str
    bits: int  # that carry the number
    stored_bits: int  # that it takes in memory
    exponent: int | None  # bits; None for whole numbers, which have none
    mantissa: int | None  # bits; None for whole numbers
    dtype: torch.dtype | None  # None where torch has none that it can compute with
    precision: str
    range: str
    use: str

    @property
    def bytes(self) -> float:
        """Return the bytes that one number takes in memory; half a byte for INT4."""
        return self.stored_bits / 8

    @property
    def largest(self) -> float:
        """Return the largest finite number; of whole numbers, the largest code."""
        if self.exponent is None or self.mantissa is None:
            return float(2 ** (self.bits - 1) - 1)
        if self.dtype is not None:
            return float(torch.finfo(self.dtype).max)
        return float((2 - 2.0**-self.mantissa) * 2.0 ** self._bias())

    @property
    def smallest_normal(self) -> float:
        """Return the smallest positive number with a full mantissa; below, precision is lost."""
        return float(2.0 ** (1 - self._bias()))

    def spacing(self, value: float) -> float:
        """Return how far the numbers around ``value`` lie apart: 2^(exponent − mantissa bits)."""
        bias = self._bias()
        if not abs(value) <= self.largest:
            raise ValueError(f"{value} is beyond the largest number of {self.name}")
        exponent = max(math.frexp(value)[1] - 1, 1 - bias) if value else 1 - bias
        return float(2.0 ** (exponent - (self.mantissa or 0)))

    def _bias(self) -> int:
        if self.exponent is None:
            raise ValueError(f"{self.name} holds whole numbers: a scale says how far they reach")
        return int(2 ** (self.exponent - 1) - 1)


def float_bits(dtype: torch.dtype) -> tuple[int, int, int]:
    """Return bits, exponent bits and mantissa bits of a float dtype, as ``torch.finfo`` has them.

    1 + eps is the next number after 1, so eps is 2 to the minus mantissa bits. One bit is the sign.
    """
    if not dtype.is_floating_point:
        raise ValueError(f"{dtype} is no format of floating-point numbers")
    info = torch.finfo(dtype)
    mantissa = round(-math.log2(info.eps))
    return info.bits, info.bits - 1 - mantissa, mantissa


def _known_to_torch(
    name: str, dtype: torch.dtype, precision: str, reach: str, use: str
) -> NumberFormat:
    if dtype.is_floating_point:
        bits, exponent, mantissa = float_bits(dtype)
        return NumberFormat(name, bits, bits, exponent, mantissa, dtype, precision, reach, use)
    bits = torch.iinfo(dtype).bits
    return NumberFormat(name, bits, bits, None, None, dtype, precision, reach, use)


_TF32 = (None, "medium", "large", "FP32 matrix products on NVIDIA GPUs")
_INT4 = (None, "lower still", "–", "inference in little memory")
_FP8_USE = "newer training and inference"

FORMATS = {
    one.name: one
    for one in (
        _known_to_torch("FP64", torch.float64, "very high", "huge", "science"),
        _known_to_torch("FP32", torch.float32, "high", "large", "training, reference"),
        NumberFormat("TF32", 1 + 8 + 10, 32, 8, 10, *_TF32),
        _known_to_torch("FP16", torch.float16, "medium", "smaller", "training, inference"),
        _known_to_torch("BF16", torch.bfloat16, "lower", "large", "training, inference of LLMs"),
        _known_to_torch("FP8 E4M3", torch.float8_e4m3fn, "low", "small", _FP8_USE),
        _known_to_torch("FP8 E5M2", torch.float8_e5m2, "low", "as FP16's", _FP8_USE),
        _known_to_torch("INT8", torch.int8, "quantised", "–", "quantised inference"),
        NumberFormat("INT4", 4, 4, None, None, *_INT4),
    )
}


def rounded(values: torch.Tensor, number_format: NumberFormat) -> torch.Tensor:
    """Return ``values`` as the format holds them, in float64, same shape.

    Whole numbers take one scale for each row, the last axis. Torch goes by way of FP32 to formats
    below it, so a value in float64 may be rounded twice.
    """
    if number_format.exponent is None:
        return dequantise(*quantise(values.double(), number_format.bits))
    if number_format.dtype is None:
        return round_to_tf32(values.float()).double()
    return values.to(number_format.dtype).double()


def round_to_tf32(values: torch.Tensor) -> torch.Tensor:
    """Return float32 ``values`` with 10 mantissa bits instead of 23, to the nearest, ties to even.

    The lower 13 bits go. Adding just under half of their range, and one more where the bit that
    stays is odd, carries into it exactly when rounding is upward.
    """
    if values.dtype != torch.float32:
        raise ValueError(f"TF32 is made from float32 values, not {values.dtype}")
    dropped = 23 - 10
    bits = values.view(torch.int32)
    odd = (bits >> dropped) & 1
    nearest = (bits + (2 ** (dropped - 1) - 1) + odd) & -(2**dropped)
    return torch.where(values.isfinite(), nearest.view(torch.float32), values)


def quantise(values: torch.Tensor, bits: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Return whole-number codes (int8, same shape) and one scale for each row, [..., 1].

    Symmetric: the largest magnitude of a row becomes the largest code, 127 for 8 bits. A row of
    zeros has the scale 1. The scale is computed in float32, of float64 values in float64.
    """
    if type(bits) is not int or not 2 <= bits <= 8:
        raise ValueError(f"bits must be a whole number from 2 to 8, not {bits!r}")
    if values.is_complex() or 0 in values.shape[-1:]:
        raise ValueError(
            f"each row needs real numbers, one at least, not {values.dtype} "
            f"of shape {list(values.shape)}"
        )
    values = values.to(torch.float64 if values.dtype == torch.float64 else torch.float32)
    if not bool(values.isfinite().all()):
        raise ValueError("only finite values can be quantised: these hold infinity or NaN")
    largest_code = 2 ** (bits - 1) - 1
    scale = values.abs().amax(dim=-1, keepdim=True) / largest_code
    scale = torch.where(scale > 0, scale, 1)
    codes = (values / scale).round().clamp(-largest_code, largest_code)
    return codes.to(torch.int8), scale


def dequantise(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return the values that codes stand for: code · scale."""
    return codes * scale


def html_table(formats: Iterable[NumberFormat]) -> str:
    """Return the course's table of number formats as HTML, one row a format."""
    # Where a long head may be cut, on a small screen.
    long = ("expo&shy;nent", "man&shy;tissa", "preci&shy;sion")
    heads = ("format", "bits", "bytes", *long, "range", "use")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    rows = "".join(f"<tr>{''.join(_cells(one))}</tr>" for one in formats)
    table = f'<table class="dataframe"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    # A table wider than its place can be scrolled, with the keyboard as well.
    label = 'role="region" aria-label="Number formats" tabindex="0"'
    return f'<div {label} style="overflow-x: auto">{table}</div>'


def _cells(one: NumberFormat) -> list[str]:
    bits = str(one.bits)
    if one.bits != one.stored_bits:
        bits = f"{one.bits} of {one.stored_bits} stored"
    parts = ["–" if part is None else str(part) for part in (one.exponent, one.mantissa)]
    texts = (bits, f"{one.bytes:g}", *parts, one.precision, one.range, one.use)
    return [
        f'<th scope="row">{html.escape(one.name)}</th>',
        *(f"<td>{html.escape(text)}</td>" for text in texts),
    ]
