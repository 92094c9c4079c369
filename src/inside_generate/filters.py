"""What may be done to logits before a token is chosen: temperature, top-k, top-p, min-p, penalty.

Pure functions: logits, [B, V], go in and new ones, [B, V], come out, in the dtype they came in. A
token that is struck out has the logit −∞, whose softmax is 0. Each equals the library's own
processor number for number; what is not a number (NaN) passes through, and ``draw`` refuses it.
The choice itself is in ``sampling.py``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch

from inside_generate.checks import check_id_tensor
from inside_generate.errors import shown
from inside_generate.guards import check_sizes

TokenRows = torch.Tensor | Sequence[torch.Tensor]  # the ids of each row so far, prompt included


def with_temperature(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Divide by the temperature: below 1 the likely become likelier, above 1 the unlikely.

    Raises for 0, which would divide by it.
    """
    check_logits(logits)
    return logits / _above_zero("temperature", temperature)


def keep_top_k(logits: torch.Tensor, k: int) -> torch.Tensor:
    """Keep the k highest logits of each row; those that are equal to the k-th stay too.

    A k above V keeps all. Source: Fan et al. 2018.
    """
    check_logits(logits)
    check_sizes(1, k=k)
    worst = logits.topk(min(k, logits.shape[-1])).values[:, -1:]  # [B, 1]
    return logits.masked_fill(logits < worst, -math.inf)


def keep_top_p(logits: torch.Tensor, p: float) -> torch.Tensor:
    """Keep the fewest most probable tokens whose probabilities add up to p, at least one.

    Added up from the improbable end, as the library does: what comes to at most 1 − p is struck
    out. Of equal logits at that border some may go and some stay; which, torch's sort does not
    promise. A p of 1 keeps all, as ``generate()`` does with it. Source: Holtzman et al. 2020.
    """
    check_logits(logits)
    p = _above_zero("the p of top-p", p, at_most=1)
    if p == 1:
        return logits.clone()
    rising = logits.sort(dim=-1)  # [B, V] each: values, indices
    struck = rising.values.softmax(dim=-1).cumsum(dim=-1) <= 1 - p
    struck[:, -1] = False  # the most probable token stays
    return logits.masked_fill(struck.scatter(1, rising.indices, struck), -math.inf)


def keep_min_p(logits: torch.Tensor, p: float) -> torch.Tensor:
    """Keep the tokens that are at least p times as probable as the most probable one.

    Source: Nguyen et al. 2025.
    """
    check_logits(logits)
    p = _above_zero("the p of min-p", p, at_most=1)
    probabilities = logits.softmax(dim=-1)
    best = probabilities.amax(dim=-1, keepdim=True)  # [B, 1]
    return logits.masked_fill(probabilities < p * best, -math.inf)


def penalise_repetition(logits: torch.Tensor, token_ids: TokenRows, penalty: float) -> torch.Tensor:
    """Lower the logits of tokens that have occurred: divided by the penalty, multiplied below 0.

    ``token_ids`` holds the ids of each row so far, prompt included and without padding; how often
    one occurred does not matter. A penalty of 1 changes nothing, one below 1 favours repetition.
    Source: Keskar et al. 2019.
    """
    check_logits(logits)
    penalty = _above_zero("penalty", penalty)
    occurred = _occurred(logits, token_ids)  # [B, V]
    lowered = torch.where(logits < 0, logits * penalty, logits / penalty)
    return torch.where(occurred, lowered, logits)


def filtered(
    logits: torch.Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> torch.Tensor:
    """Return the logits, in fp32, after all that is asked for, in the order of ``generate()``.

    Temperature comes first: what top-p and min-p keep depends on it.
    """
    check_logits(logits)
    logits = with_temperature(logits.float(), temperature)
    if top_k is not None:
        logits = keep_top_k(logits, top_k)
    if top_p is not None:
        logits = keep_top_p(logits, top_p)
    if min_p is not None:
        logits = keep_min_p(logits, min_p)
    return logits


# --- guards ---------------------------------------------------------------------------------------


def check_logits(logits: torch.Tensor) -> None:
    """Raise unless these are rows of scores, [B, V], in a floating-point format."""
    if not isinstance(logits, torch.Tensor) or not logits.is_floating_point():
        kind = getattr(logits, "dtype", type(logits).__name__)
        raise ValueError(f"logits must be a tensor of floating-point numbers, not {kind}")
    if logits.dim() != 2 or 0 in logits.shape:
        shape = list(logits.shape)
        raise ValueError(f"logits must be [B, V] with B ≥ 1 and V ≥ 1, not {shape}")


def _occurred(logits: torch.Tensor, token_ids: TokenRows) -> torch.Tensor:
    """Return a mask, [B, V], of the ids that stand in each row."""
    batch, vocabulary = logits.shape
    try:
        rows = list(token_ids)
    except TypeError:
        raise ValueError(f"ids must be rows of them, not {shown(token_ids)}") from None
    if len(rows) != batch:
        raise ValueError(f"{batch} rows of logits need as many rows of ids, not {len(rows)}")
    occurred = torch.zeros_like(logits, dtype=torch.bool)
    for row, ids in zip(occurred, rows, strict=True):
        check_id_tensor(ids)
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < vocabulary:
            wrong = [index for index in ids.flatten().tolist() if not 0 <= index < vocabulary]
            raise ValueError(f"ids must be from 0 to {vocabulary - 1}, not {shown(wrong)}")
        row[ids] = True
    return occurred


def _above_zero(name: str, value: Any, at_most: float = sys.float_info.max) -> float:
    """Return a parameter as a float, or raise with what it was."""
    try:
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        number = float(value) if is_number else math.nan
    except OverflowError:  # a whole number of 400 digits
        number = math.inf
    if 0 < number <= at_most:
        return number
    reach = "above 0 and at most 1" if at_most == 1 else "a finite number above 0"
    hint = "; for the best token each time: sampler=greedy" if name == "temperature" else ""
    raise ValueError(f"{name} must be {reach}, not {shown(value)}{hint}")
