"""What a GPU check finds here: machine, versions, the model to take, and what cannot run and why.

`python book/gpu_machine.py FILE --device cuda --model auto` writes it to FILE as JSON. It is a
process of its own because importing torch is the first thing that may fail, or hang, on a machine
whose driver is not in order. Every reading that cannot be had is null.
"""

import argparse
import importlib
import inspect
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "huggingface-hub",
    "numpy",
    "triton",
    "matplotlib",
    "pytest",
)
# What each part imports that a machine may lack; the modules of the course bring in the rest.
NEEDS = {
    "tests": ("inside_generate.loop", "inside_generate.models", "tokenizers", "pytest"),
    "bench": ("inside_generate.loop", "inside_generate.models", "inside_generate.bench"),
    "notebooks": ("inside_generate.loop", "inside_generate.models", "matplotlib"),
}


def versions() -> dict[str, str | None]:
    """Return the versions of what computes, ``None`` for what is not there."""
    return {name: attempt(version, name) for name in PACKAGES}


def attempt(reading: Callable[..., Any], *of: Any) -> Any:
    """Return a reading, or ``None`` where it cannot be had."""
    try:
        return reading(*of)
    except (PackageNotFoundError, OSError, ImportError, RuntimeError, subprocess.SubprocessError):
        return None


def gpu(device: str) -> dict[str, Any]:
    """Return what torch and the driver say of the device."""
    import torch

    on_gpu = device.startswith("cuda") and torch.cuda.is_available()
    facts = torch.cuda.get_device_properties(device) if on_gpu else None
    return {
        "device": device,
        "device_name": facts.name if facts else attempt(cpu_name),
        "device_memory_mib": facts.total_memory // 2**20 if facts else None,
        "compute_capability": f"{facts.major}.{facts.minor}" if facts else None,
        "driver_version": attempt(driver_version) if facts else None,
        "cuda_version": torch.version.cuda,
        "threads": torch.get_num_threads(),
    }


def cpu_name() -> str:
    """Return what the maker calls this processor."""
    from inside_generate.device import cpu_name

    return cpu_name()


def driver_version() -> str | None:
    """Return the version of NVIDIA's driver, from its own program."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    return done.stdout.strip().partition("\n")[0] or None


def device_to_use(wanted: str) -> str:
    """Return the device by its name, or raise with what keeps torch from it."""
    try:
        from inside_generate.device import choose_device
    except (
        ImportError
    ):  # what is missing is said part by part; the machine is described all the same
        import torch

        auto = "cuda" if torch.cuda.is_available() else "cpu"
        return auto if wanted == "auto" else wanted
    return str(choose_device(wanted))


def commit() -> str | None:
    """Return the commit that this is; ``None`` outside a checkout."""
    from inside_generate.environment import source_commit

    return source_commit()


def cannot_run(part: str) -> str | None:
    """Return why a part cannot run here, in words; ``None`` where it can."""
    for module in NEEDS[part]:
        try:
            importlib.import_module(module)
        except Exception as error:  # a package of another version can fail in any way
            return f"{module} cannot be imported: {' '.join(str(error).split())}"[:300]
    return loop_does_not_fit()


def loop_does_not_fit() -> str | None:
    """Return why the loop cannot drive this version of the model library, or ``None``."""
    from transformers import Qwen2ForCausalLM, __version__

    if "cache" in inspect.signature(Qwen2ForCausalLM.forward).parameters:
        return None
    return (
        f"transformers {__version__} knows the cache by another name than the loop does; put the "
        "version of requirements.txt on PYTHONPATH"
    )


def take_model(wanted: str) -> dict[str, Any]:
    """Return the directory of the model to take, and why its weights are random, if they are."""
    from inside_generate.errors import InsideGenerateError
    from inside_generate.finding import find, wanted_model
    from inside_generate.random_checkpoint import is_random, random_checkpoint

    why = "random weights were asked for"
    if wanted_model(wanted) != "random":
        try:
            directory = find(wanted)
            return {"directory": str(directory), "random_weights": is_random(directory)}
        except InsideGenerateError as error:
            if wanted_model(wanted) != "auto":
                raise
            why = str(error)
    return {"directory": str(random_checkpoint()), "random_weights": True, "why": why}


def look(device: str, wanted: str) -> dict[str, Any]:
    """Return all of it, ready for JSON. Raises what keeps every part from running."""
    machine: dict[str, Any] = {
        "python_version": platform.python_version(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "versions": versions(),
        "source_commit": attempt(commit),
    }
    machine |= gpu(device)
    reasons = {part: cannot_run(part) for part in NEEDS}
    model = None if all(reasons.values()) else take_model(wanted)
    return {"machine": machine, "cannot_run": reasons, "model": model}


def main() -> int:
    """Write what is found, or end with one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--device", required=True)
    parser.add_argument("--model", required=True)
    options = parser.parse_args()
    try:
        found = look(device_to_use(options.device), options.model)
    except Exception as error:  # whatever it is, it is the reason
        print(" ".join(str(error).split()) or type(error).__name__)
        return 1
    options.file.write_text(json.dumps(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
