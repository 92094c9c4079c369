"""The most GPU memory that one process had allocated, whoever reset the counter in between.

Lessons and tests reset PyTorch's own counter to measure single steps. This one looks at the counter
before each reset. Printed at the end by the processes that `gpu_check.py` starts, and read there.
`python book/gpu_peak.py MODULE ARGUMENTS` is `python -m MODULE ARGUMENTS` with that line last.
"""

import re
import runpy
import sys
from collections.abc import Callable, Sequence
from typing import Any

MIB = 1024**2
LINE = re.compile(r"peak of allocated GPU memory: ([0-9.]+) MiB")


def watch() -> Callable[[], float | None]:
    """Watch from now on; return a function that says the peak in MiB, ``None`` without CUDA."""
    import torch

    if not torch.cuda.is_available():
        return lambda: None
    reset, seen = torch.cuda.reset_peak_memory_stats, [0]

    def look_and_reset(device: Any = None) -> None:
        seen.append(torch.cuda.max_memory_allocated(device))
        reset(device)

    torch.cuda.reset_peak_memory_stats = look_and_reset
    return lambda: max(*seen, torch.cuda.max_memory_allocated()) / MIB


def line(mib: float) -> str:
    """Return the peak as a line to print."""
    return f"peak of allocated GPU memory: {mib:.1f} MiB"


def read(said: Sequence[str]) -> float | None:
    """Return the peak that one of these lines tells, in MiB."""
    found = [float(match[1]) for text in said if (match := LINE.search(text))]
    return max(found, default=None)


def run_watched(module: str) -> None:
    """Run a module as Python's ``-m`` would; whatever it ends with, say its peak."""
    peak = watch()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        if (mib := peak()) is not None:
            print(line(mib), flush=True)


if __name__ == "__main__":
    del sys.argv[0]
    run_watched(sys.argv[0])
