"""What a run ran on: machine, versions, model, commit, date.

A reading that a machine cannot give is ``None``: never 0, never a made-up name.
"""

from __future__ import annotations

import datetime
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

from inside_generate.device import cpu_name
from inside_generate.models import identity


def describe(model: PreTrainedModel) -> dict[str, Any]:
    """Return where, when and with what a run of ``model`` takes place, under its JSON keys."""
    device = model.device
    who = identity(model)
    return {
        "model_id": who.model_id,
        "revision": who.revision,
        "device": str(device),
        "device_name": device_name(device),
        "gpu_name": device_name(device) if device.type == "cuda" else None,
        "dtype": str(model.dtype).removeprefix("torch."),
        "torch_version": torch.__version__,
        "cuda_version": torch.version.cuda,
        "transformers_version": transformers.__version__,
        "python_version": platform.python_version(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "source_commit": source_commit(),
    }


def device_name(device: torch.device) -> str | None:
    """Return what the maker calls the processor that runs the model."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return cpu_name()


def source_commit() -> str | None:
    """Return the commit of the course's own checkout; ``None`` outside one.

    The ending ``-dirty`` says that files differ from that commit.
    """
    here = Path(__file__).resolve().parent
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        top = _git(["git", "rev-parse", "--show-toplevel"], here)
        return _git(command, here) if here.is_relative_to(Path(top) / "src") else None
    except (OSError, subprocess.SubprocessError):
        return None


def provenance(model: PreTrainedModel) -> str:
    """Return a few lines that say which model and machine produced what a page shows."""
    facts = describe(model)
    revision = f" (revision {facts['revision'][:12]})" if facts["revision"] else ""
    return (
        f"model    {facts['model_id']}{revision}\n"
        f"device   {facts['device']}: {facts['device_name']}, "
        f"{torch.get_num_threads()} CPU threads, {facts['dtype']}\n"
        f"versions torch {facts['torch_version']}, transformers {facts['transformers_version']}, "
        f"Python {facts['python_version']}\n"
        f"run on   {facts['date']}"
    )


def _git(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
