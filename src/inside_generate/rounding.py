"""How far two right programs' logits may lie apart, because each rounds.

Both add the same numbers, but in another order, and each addition rounds. The bounds are for a
step's best logits: well above what rounding does to these on the machines tried, and below what a
wrong mask, position or cache does. Among all V logits a few may lie further apart in 16 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `compare` reads this table, and has to work where torch does not
    import torch

# Logits of these models reach 20 and more. Between 16 and 32 bfloat16 numbers lie 0.125 apart
# (7 bits after the point), float16 numbers 0.0156 (10 bits) and float32 numbers 0.000002 (23 bits).
# A logit is the outcome of many roundings, which add up to several of these spacings.
LOGIT_TOLERANCES = {"float64": 1e-3, "float32": 1e-3, "float16": 0.125, "bfloat16": 0.5}


def logit_tolerance(dtype: torch.dtype) -> float:
    """Return the largest difference of two logits that counts as rounding in ``dtype``."""
    name = str(dtype).removeprefix("torch.")
    if name not in LOGIT_TOLERANCES:
        raise ValueError(f"a tolerance is known for {', '.join(LOGIT_TOLERANCES)}, not for {name}")
    return LOGIT_TOLERANCES[name]
