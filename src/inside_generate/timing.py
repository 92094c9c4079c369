"""A clock that waits for the device, and the two times that a user feels.

TTFT, time to first token: from the encoded prompt to the first token picked (prefill and choice).
TPOT, time per output token: the mean over the tokens after the first (decode).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from inside_generate.guards import check_numbers

Clock = Callable[[], float]


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished what was queued. On a CPU there is nothing to wait for."""
    kind = torch.device(device).type
    if kind == "cuda":
        torch.cuda.synchronize(device)
    elif kind == "mps":
        torch.mps.synchronize()


def device_clock(device: torch.device) -> Clock:
    """Return a clock, in seconds, that reads the time only once the device is idle.

    A GPU works on its queue while Python runs ahead; a plain clock would time the queueing.
    """

    def now_s() -> float:
        synchronize(device)
        return time.perf_counter()

    return now_s


def ttft_s(step_seconds: Sequence[float]) -> float:
    """Return the seconds to the first token. It is not divided by the batch: all rows wait."""
    return check_numbers("step_seconds", step_seconds, low=0)[0]


def tpot_s(step_seconds: Sequence[float]) -> float | None:
    """Return the mean seconds per token after the first; ``None`` where there is only one."""
    decode = check_numbers("step_seconds", step_seconds, low=0)[1:]
    return sum(decode) / len(decode) if decode else None
