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

from inside_generate.checkpoints import REFERENCE, SMALL, STAND_IN
from inside_generate.device import device_name
from inside_generate.models import identity

ROLES = {
    REFERENCE: "the reference, revision",
    STAND_IN: "the stand-in, from a GGUF file (Q4_K_M) with sha256",
    SMALL: "the small model, from a GGUF file (Q4_1) with sha256",
}


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
    facts, threads = describe(model), torch.get_num_threads()
    role = ROLES.get(identity(model).name or "", "a model of your own, weights with sha256")
    if facts["revision"] is None:
        role = "not from a checkpoint"
    lines = {
        "model": facts["model_id"],
        "which": f"{role} {(facts['revision'] or '')[:12]}".rstrip(),
        "device": f"{facts['device']}: {facts['device_name']}, "
        f"{threads} CPU thread{'' if threads == 1 else 's'}, {facts['dtype']}",
        "versions": f"torch {facts['torch_version']}, "
        f"transformers {facts['transformers_version']}, Python {facts['python_version']}",
        "run on": facts["date"],
    }
    return "\n".join(f"{name:<9}{value}" for name, value in lines.items())


def _git(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
