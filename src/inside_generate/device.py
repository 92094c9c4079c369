"""Which processor computes, and in which number format.

What it knows: which devices torch sees, what keeps it from seeing one that is there, and how
to find out whether bf16 or fp32 is faster on this CPU. What it leaves to others: putting a
model there (`models`), timing for its own sake (`timing`).
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from pathlib import Path

import torch
from torch.nn import functional

from inside_generate.errors import InsideGenerateError
from inside_generate.home import recall, remember, settings_file, written

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(device: str | torch.device = "auto") -> torch.device:
    """Return the device to compute on: CUDA where torch sees one, else the CPU.

    ``INSIDE_GENERATE_DEVICE`` stands in for "auto". Apple's "mps" is taken only when asked
    for: the course was not tested on it.
    """
    wanted = _from_environment(str(device), "INSIDE_GENERATE_DEVICE")
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, index = wanted.partition(":")
    if not re.fullmatch(r"cpu|mps|cuda(:[0-9]{1,3})?", wanted):
        raise InsideGenerateError(f"unknown device {wanted!r}; choose auto, cpu, cuda or mps")
    if kind == "cuda":
        _require_cuda(int(index or 0))
    if kind == "mps" and not torch.backends.mps.is_available():
        raise InsideGenerateError("there is no Apple GPU (mps) here; choose --device cpu or auto")
    return torch.device(wanted)


def _from_environment(value: str, variable: str) -> str:
    return os.environ.get(variable) or "auto" if value == "auto" else value


def _require_cuda(index: int) -> None:
    if not torch.cuda.is_available():
        why = gpu_torch_cannot_see() or "there is no CUDA device here"
        raise InsideGenerateError(f"{why}; choose --device cpu to go without")
    if index >= torch.cuda.device_count():
        raise InsideGenerateError(
            f"there is no cuda:{index}: torch sees {torch.cuda.device_count()} CUDA device(s), "
            "counted from 0"
        )


def gpu_torch_cannot_see() -> str | None:
    """Return what keeps torch from an NVIDIA GPU that is here, in a sentence, or ``None``."""
    signs = shutil.which("nvidia-smi"), *map(Path.exists, _driver_files())
    if torch.cuda.is_available() or not any(signs):
        return None
    seen = "there is an NVIDIA driver here, but torch sees no GPU"
    if torch.version.cuda is None:
        return (
            f"{seen}: this torch ({torch.__version__}) was built for the CPU only; install the "
            "build for your CUDA version with the command that PyTorch's install page gives"
        )
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return f"{seen}: CUDA_VISIBLE_DEVICES hides it; unset that variable"
    return (
        f"{seen}: it was built for CUDA {torch.version.cuda}; type `nvidia-smi` to see whether "
        "the driver works and is new enough for that version"
    )


def _driver_files() -> list[Path]:
    """Return what a loaded NVIDIA driver leaves in the file system, also in a container."""
    return [Path("/dev/nvidia0"), Path("/proc/driver/nvidia/version")]


def choose_dtype(
    dtype: str | torch.dtype = "auto", device: str | torch.device = "auto"
) -> tuple[torch.dtype, str]:
    """Return the number format to compute in, and the reason in words.

    ``INSIDE_GENERATE_DTYPE`` stands in for "auto". What "auto" means: on CUDA bf16 from compute
    capability 8.0 on, else fp16 (whether its range suffices shows once a model is loaded); on
    a CPU whichever of bf16 and fp32 is faster, measured once and kept; elsewhere fp32.
    """
    wanted = wanted_dtype(dtype)
    if wanted != "auto":
        return DTYPES[wanted], f"{wanted} was asked for"
    device = choose_device(device)
    if device.type == "cuda":
        return _choose_dtype_on_cuda(device)
    if device.type == "cpu":
        return _choose_dtype_on_cpu()
    return torch.float32, f"float32 works on every device; {device.type} was not tested here"


def wanted_dtype(dtype: str | torch.dtype) -> str:
    """Return the name that counts: the argument, else the environment's, else "auto"."""
    wanted = _from_environment(str(dtype).removeprefix("torch."), "INSIDE_GENERATE_DTYPE")
    if wanted != "auto" and wanted not in DTYPES:
        raise InsideGenerateError(f"unknown dtype {wanted!r}; choose auto, {', '.join(DTYPES)}")
    return wanted


def _choose_dtype_on_cuda(device: torch.device) -> tuple[torch.dtype, str]:
    major, minor = torch.cuda.get_device_capability(device)
    if major >= 8:
        return torch.bfloat16, f"compute capability {major}.{minor} has fast bfloat16"
    return torch.float16, f"compute capability {major}.{minor} has fast float16, not bfloat16"


def _choose_dtype_on_cpu() -> tuple[torch.dtype, str]:
    """Measure once for each processor, torch version and number of threads; then look it up."""
    key = f"{cpu_name()}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    seconds, kept = recall("cpu_dtype", key), True
    if not _are_times(seconds):
        seconds = measure_dtypes()
        kept = remember("cpu_dtype", key, seconds)
    unkept = "not kept: the folder cannot be written"
    where = f"kept in {written(settings_file())}" if kept else unkept
    name, why = _faster(seconds)
    return DTYPES[name], (
        f"{why}: {1e3 * seconds['bfloat16']:.0f} ms for sample products in bfloat16, "
        f"{1e3 * seconds['float32']:.0f} ms in float32, measured once and {where}"
    )


def _are_times(kept: object) -> bool:
    """Return whether what the settings file holds is a time for each dtype."""
    if not isinstance(kept, dict) or kept.keys() != {"bfloat16", "float32"}:
        return False
    return all(isinstance(value, float) and value > 0 for value in kept.values())


def _faster(seconds: dict[str, float]) -> tuple[str, str]:
    """Return the dtype to take and why. Within a tenth of each other, memory decides."""
    ratio = seconds["float32"] / seconds["bfloat16"]
    if ratio < 0.9:
        return "float32", "float32 is faster here"
    if ratio > 1.1:
        return "bfloat16", "bfloat16 is faster here"
    return "bfloat16", "bfloat16 is as fast as float32 here and takes half the memory"


@torch.inference_mode()
def measure_dtypes() -> dict[str, float]:
    """Return the seconds that sample products of a short answer take in bf16 and in fp32.

    The weights (70 million numbers) are too many for a cache, as a model's are, so that a
    matrix-vector product runs at the speed of memory. A processor without bf16 arithmetic may
    still be quick at that but slow at the prompt's matrix products: both count.
    """
    weights = {
        name: [torch.ones(4864, 896, dtype=DTYPES[name]) for _ in range(16)]
        for name in ("bfloat16", "float32")
    }
    best = dict.fromkeys(weights, float("inf"))
    for _ in range(7):  # taking turns: other programs disturb both, and only ever slow down
        for name, matrices in weights.items():
            best[name] = min(best[name], _seconds_for_products(matrices))
    return best


def _seconds_for_products(matrices: list[torch.Tensor]) -> float:
    """Return the time for one row through all matrices and for 32 rows through one of them.

    That is the mix of an answer half as long as its prompt: one prefill, 16 decode steps.
    """
    row = torch.ones(1, 1, 896, dtype=matrices[0].dtype)  # [B, L, hidden]
    prompt = row.expand(1, 32, 896).contiguous()
    start = time.perf_counter()
    for matrix in matrices:
        functional.linear(row, matrix)
    functional.linear(prompt, matrices[0])
    return time.perf_counter() - start


def device_name(device: torch.device) -> str | None:
    """Return what the maker calls the processor that runs the model."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return cpu_name()


def cpu_name() -> str:
    """Return what the maker calls this processor, as far as the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine() or "unknown"
