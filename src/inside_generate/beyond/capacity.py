"""What a machine can carry: how many answers at once, how fast, and what stands in the way.

An estimate from a config and three numbers of a machine, which its owner measures or looks up.
Times are lower bounds: what has to be read, at the rate at which memory can be read, and what has
to be computed, at the rate of a large matrix product. A real engine stays above both.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import PretrainedConfig

from inside_generate.cache import kv_cache_bytes, weight_bytes
from inside_generate.flops import decode_flops
from inside_generate.guards import check_numbers, check_sizes
from inside_generate.step_bytes import step_bytes_of


@dataclass(frozen=True)
class Machine:
    """A device's memory in bytes, and its two ceilings: bytes read and operations per second."""

    memory_bytes: float
    bytes_per_s: float
    flop_per_s: float
    spare: float = 0.1  # share of the memory kept for logits, activations, allocator


@dataclass(frozen=True)
class Capacity:
    """How many rows a machine carries at a context, and how fast; ``limit`` says what ends it."""

    rows: int
    limit: str  # "memory" or "time": what lets no further row in
    step_s: float  # at least, for one token of every row
    bound: str  # "reading" or "arithmetic": what takes that time
    tokens_per_s: float  # of all rows together, at most


def rows_in_memory(
    config: PretrainedConfig,
    context: int,
    machine: Machine,
    dtype: torch.dtype = torch.bfloat16,
) -> int:
    """Return how many rows of ``context`` tokens fit beside the weights."""
    check_sizes(1, context=context)
    check_machine(machine)
    room = machine.memory_bytes * (1 - machine.spare) - weight_bytes(config, dtype)
    return max(int(room // kv_cache_bytes(config, context, dtype=dtype)), 0)


def step_times(
    config: PretrainedConfig,
    context: int,
    rows: int,
    machine: Machine,
    dtype: torch.dtype = torch.bfloat16,
) -> dict[str, float]:
    """Return the seconds that reading and arithmetic of one decode step take at least."""
    check_sizes(1, context=context, rows=rows)
    check_machine(machine)
    return {
        "reading": step_bytes_of(config, context, rows, dtype) / machine.bytes_per_s,
        "arithmetic": rows * decode_flops(config, context) / machine.flop_per_s,
    }


def capacity(
    config: PretrainedConfig,
    context: int,
    machine: Machine,
    step_limit_s: float,
    dtype: torch.dtype = torch.bfloat16,
) -> Capacity:
    """Return the most rows whose cache fits and whose step takes no longer than ``step_limit_s``.

    All rows are as long as ``context``: an average, or the worst case for a promise.
    """
    check_numbers("step_limit_s", [step_limit_s], low=1e-9, high=1e9)
    fit = rows_in_memory(config, context, machine, dtype)
    times = {rows: step_times(config, context, rows, machine, dtype) for rows in (1, 2)}
    in_time = min(_rows_in(times[1][name], times[2][name], step_limit_s) for name in times[1])
    rows, limit = min((fit, "memory"), (in_time, "time"))
    bound, step_s = _longest(times, max(rows, 1))
    return Capacity(rows, limit, step_s, bound, rows / step_s)


def requests_in_flight(requests_per_s: float, seconds_each: float) -> float:
    """Return how many requests are under way on average: arrivals a second times seconds each."""
    check_numbers("requests_per_s and seconds_each", [requests_per_s, seconds_each], low=0)
    return requests_per_s * seconds_each


def check_machine(machine: Machine) -> None:
    """Raise ``ValueError`` unless a machine's numbers are above 0, its spare share below 1."""
    numbers = [machine.memory_bytes, machine.bytes_per_s, machine.flop_per_s]
    check_numbers("a machine's numbers", numbers, low=1, high=1e30)
    check_numbers("spare", [machine.spare], low=0, high=0.99)


def _longest(times: dict[int, dict[str, float]], rows: int) -> tuple[str, float]:
    """Return what takes longest, and how long: both grow by the same with each further row."""
    grown = {n: one + (times[2][n] - one) * (rows - 1) for n, one in times[1].items()}
    return max(grown.items(), key=lambda item: item[1])


def _rows_in(one: float, two: float, limit: float) -> int:
    """Return how many rows keep the limit, if the first takes ``one`` and two take ``two``."""
    return int((limit - one) / (two - one) + 1 + 1e-9) if limit >= one else 0
