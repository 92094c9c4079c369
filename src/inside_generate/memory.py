"""What the device's allocator, the driver and the system say about memory.

Only CUDA keeps these counters here. Elsewhere a reading is ``None``, which is not 0. Counting
tensors instead, on any device, is in ``live_tensors``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import psutil
import torch

from inside_generate.timing import synchronize

MIB = 1024**2
Result = TypeVar("Result")


@dataclass(frozen=True)
class Counters:
    """Three answers to "how much of the GPU is in use now", in bytes; ``None`` without CUDA."""

    allocated_bytes: int | None  # tensors that are alive, as the allocator rounds them
    reserved_bytes: int | None  # what the allocator has taken from the driver, free blocks included
    card_bytes: int | None  # all that is taken on the card, other programs' part too


@dataclass(frozen=True)
class Measured:
    """What one run took, in bytes; ``None`` where the device keeps no such counter."""

    before_bytes: int | None  # allocated before the run: weights and whatever else is alive
    peak_bytes: int | None  # the most that was allocated at once
    reserved_bytes: int | None  # the most that the allocator held

    @property
    def delta_bytes(self) -> int | None:
        """What the run added: peak − before."""
        if self.peak_bytes is None or self.before_bytes is None:
            return None
        return self.peak_bytes - self.before_bytes


def counters(device: torch.device) -> Counters:
    """Return what allocator and driver count now."""
    if torch.device(device).type != "cuda":
        return Counters(None, None, None)
    free_bytes, total_bytes = torch.cuda.mem_get_info(device)
    return Counters(
        torch.cuda.memory_allocated(device),
        torch.cuda.memory_reserved(device),
        total_bytes - free_bytes,
    )


def measure(
    run: Callable[[], Result],
    device: torch.device,
) -> tuple[Result, Measured]:
    """Run; return the result and what it took: before, reset, run, peak."""
    synchronize(device)
    before = counters(device).allocated_bytes
    reset_peak(device)
    result = run()
    if torch.device(device).type != "cuda":
        return result, Measured(None, None, None)
    synchronize(device)
    peak = torch.cuda.max_memory_allocated(device)
    reserved = torch.cuda.max_memory_reserved(device)
    return result, Measured(before, peak, reserved)


def reset_peak(device: torch.device) -> None:
    """Start the peak counter again from what is allocated now. Nothing is freed by this."""
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_allocated_mib(device: torch.device) -> float | None:
    """Return the peak of allocated tensors since ``reset_peak``, in MiB, to two decimals."""
    if torch.device(device).type != "cuda":
        return None
    return round(torch.cuda.max_memory_allocated(device) / MIB, 2)


def process_bytes() -> int:
    """Return the main memory that the system has given this process and that is not swapped out."""
    return int(psutil.Process().memory_info().rss)
