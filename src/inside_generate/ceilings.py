"""The two ceilings of a machine: how fast it multiplies matrices, and how fast it reads memory.

A ceiling is the most that was seen: the best of several ways, of several runs each. One way alone
may be slow for a reason of its own, and a ceiling that is too low flatters whatever is compared
with it. The roofline of Williams, Waterman and Patterson (2009) is made of these two numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import psutil
import torch
from torch.nn.functional import linear

from inside_generate.guards import check_numbers
from inside_generate.timing import Clock, device_clock

Run = Callable[[], object]
Say = Callable[[str], None]

MIB = 1024**2
READ_BYTES = {"cpu": 512 * MIB, "cuda": 4096 * MIB}  # far more than caches hold
SHARE_OF_FREE = 8  # of the memory that is free, an eighth at most
MATRIX_SIZES = {"cpu": (1024, 2048, 3072), "cuda": (2048, 4096, 8192)}
SECONDS_EACH = 0.3  # for one way, all its runs together
MOST_RUNS = 50
SLOW_S = 0.5  # after a product that took this long, no larger one


@dataclass(frozen=True)
class Ceilings:
    """What one device reached, with every way that was tried."""

    device: str
    dtype: str  # of the matrix products; how fast memory is read does not depend on it
    ways: Mapping[str, float]  # way to read memory → GB/s
    matmul_ways: Mapping[str, float]  # size of the product → GFLOP/s

    @property
    def memory_way(self) -> str:
        """The way that read fastest."""
        return max(self.ways, key=lambda way: self.ways[way])

    @property
    def memory_gb_per_s(self) -> float:
        """The most bytes that were read in a second, in GB of 10⁹."""
        return self.ways[self.memory_way]

    @property
    def matmul_way(self) -> str:
        """The size of the product with the highest rate."""
        return max(self.matmul_ways, key=lambda way: self.matmul_ways[way])

    @property
    def matmul_gflop_per_s(self) -> float:
        """The most operations that were done in a second, in units of 10⁹."""
        return self.matmul_ways[self.matmul_way]

    @property
    def ridge_flop_per_byte(self) -> float:
        """Where the ceilings meet: with fewer operations a byte, reading takes longer."""
        return self.matmul_gflop_per_s / self.memory_gb_per_s

    def gflop_per_s(self, flop_per_byte: float) -> float:
        """Return the roof over work of that intensity: the lower of the two ceilings."""
        check_numbers("flop_per_byte", [flop_per_byte], low=0)
        return min(self.matmul_gflop_per_s, flop_per_byte * self.memory_gb_per_s)

    def seconds(self, flops: float, read_bytes: float) -> float:
        """Return the least time for the work: that of the slower one, as both go on at once."""
        check_numbers("work", [flops, read_bytes], low=0)
        return max(flops / self.matmul_gflop_per_s, read_bytes / self.memory_gb_per_s) / 1e9


def measure_ceilings(
    device: torch.device | str,
    dtype: torch.dtype,
    say: Say | None = None,
    *,
    clock: Clock | None = None,
) -> Ceilings:
    """Measure both, in a few seconds, and call ``say`` with a line for each way.

    ``dtype`` is that of the matrix products, such as ``model.dtype``.
    """
    device, say, clock = torch.device(device), say or _nothing, clock or device_clock(device)
    with torch.inference_mode():
        ways = _read(device, clock, say)
        matmul_ways = _multiply(device, dtype, clock, say)
    return Ceilings(str(device), str(dtype).removeprefix("torch."), ways, matmul_ways)


def higher(one: Ceilings, other: Ceilings) -> Ceilings:
    """Return the better of two measurements, way by way: a machine can be disturbed for a while."""
    return replace(
        one,
        ways={way: max(rate, other.ways.get(way, 0)) for way, rate in one.ways.items()},
        matmul_ways={
            way: max(rate, other.matmul_ways.get(way, 0)) for way, rate in one.matmul_ways.items()
        },
    )


def _read(device: torch.device, clock: Clock, say: Say) -> dict[str, float]:
    """Return GB/s of each way over one and the same memory."""
    half = read_bytes(device) // 8
    numbers = torch.ones(2, half, dtype=torch.float32, device=device)  # written: no empty pages
    rates = {}
    for name, run in reading_ways(numbers).items():
        rates[name] = numbers.nbytes / best_seconds(run, clock) / 1e9
        say(f"memory, {name}: {rates[name]:.1f} GB/s")
    return rates


def read_bytes(device: torch.device) -> int:
    """Return how many bytes to pass over: many for the caches, few for the machine."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
    else:
        free = psutil.virtual_memory().available
    wanted = READ_BYTES.get(device.type, READ_BYTES["cpu"])
    return max(min(wanted, free // SHARE_OF_FREE), MIB) // MIB * MIB


def reading_ways(numbers: torch.Tensor) -> dict[str, Run]:
    """Return ways to pass over all of ``numbers``, [2, n], once.

    Each moves ``numbers.nbytes``: the copy reads one half and writes the other.
    """
    flat, (one, other) = numbers.view(-1), numbers
    matrix = numbers.view(-1, 2048)
    column = numbers.new_ones(2048)
    return {
        "sum": flat.sum,
        "dot product": lambda: torch.dot(one, other),
        "sum of each row": lambda: matrix.sum(dim=1),
        "matrix times vector": lambda: matrix @ column,
        "copy": lambda: other.copy_(one),
    }


def _multiply(device: torch.device, dtype: torch.dtype, clock: Clock, say: Say) -> dict[str, float]:
    """Return GFLOP/s of square products; where one is slow, larger ones are left out."""
    rates: dict[str, float] = {}
    seconds = 0.0
    for size in MATRIX_SIZES.get(device.type, MATRIX_SIZES["cpu"]):
        if seconds > SLOW_S:
            break
        a, b = torch.randn(2, size, size, device=device).to(dtype)
        ways: dict[str, Run] = {"A B": partial(torch.matmul, a, b), "A Bᵀ": partial(linear, a, b)}
        for name, run in ways.items():
            seconds = best_seconds(run, clock)
            rates[f"{name}, {size}"] = rate = 2 * size**3 / seconds / 1e9
            say(f"matrix product, {name}, {size}: {rate:.0f} GFLOP/s")
    return rates


def best_seconds(run: Run, clock: Clock) -> float:
    """Return the shortest of several runs: what disturbs one makes it longer, never shorter."""
    best, spent, runs = float("inf"), 0.0, 0
    while runs < 3 or (spent < SECONDS_EACH and runs < MOST_RUNS):
        start = clock()
        run()
        seconds = clock() - start
        best, spent, runs = min(best, seconds), spent + seconds, runs + 1
    if not best > 0:
        raise ValueError(f"a run took {best} s: a rate needs a clock that moves")
    return best


def _nothing(line: str) -> None:
    """Say nothing."""
