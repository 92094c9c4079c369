"""What the device's allocator says about memory.

Only CUDA keeps these counters here. Elsewhere a reading is ``None``, which is not 0.
"""

from __future__ import annotations

import torch

MIB = 1024**2


def reset_peak(device: torch.device) -> None:
    """Start the peak counter again from what is allocated now. Nothing is freed by this."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_allocated_mib(device: torch.device) -> float | None:
    """Return the peak of allocated tensors since ``reset_peak``, in MiB, to two decimals."""
    if device.type != "cuda":
        return None
    return round(torch.cuda.max_memory_allocated(device) / MIB, 2)
