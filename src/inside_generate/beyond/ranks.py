"""Starting a model cut over several processes, and reading what each of them saw.

Knows ``torchrun``: how it is called so that the ranks meet on this machine alone, how long they may
take, and that none is left behind. What one rank does is in ``tensor_parallel.py``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoConfig

from inside_generate.beyond.children import check_seconds, child, last_words, wait_until
from inside_generate.beyond.traffic import Transfer, check_ranks
from inside_generate.errors import InsideGenerateError, in_a_line, shown
from inside_generate.guards import check_ids_in_a_row

PROGRAM = "inside_generate.beyond.tensor_parallel"


@dataclass(frozen=True)
class Part:
    """A rank's part of one weight; ``axis`` is the one that is cut, ``None`` where it is whole."""

    whole: tuple[int, ...]
    own: tuple[int, ...]
    axis: int | None


@dataclass(frozen=True)
class Rank:
    """What one rank saw. The first of ``transfers`` is the prompt's, each other one a token's."""

    rank: int
    ranks: int
    backend: str
    device: str
    weights: dict[str, Part]
    weight_bytes: int
    cached_keys: tuple[int, ...]  # of one layer: [B, KV heads, tokens, head size]
    cache_bytes: int
    transfers: list[list[Transfer]]
    process_bytes: int  # what the system says this process holds in memory
    logits: torch.Tensor  # [forwards, V], of the last position


def run_ranks(
    model: str | Path,
    ranks: int,
    prompt_ids: Sequence[int],
    next_ids: Sequence[int] = (),
    dtype: torch.dtype = torch.float32,
    timeout_s: float = 240.0,
) -> list[Rank]:
    """Run a prompt, then token by token ``next_ids``, through a model cut over ``ranks`` processes.

    On GPUs (NCCL) where there is one for each rank, else on the CPU (gloo). Raises ``ValueError``
    where the heads cannot be shared out evenly, ``InsideGenerateError`` where a rank fails.
    """
    check_ranks(_config(model), ranks)
    check_seconds("timeout_s", timeout_s)
    device = "cuda" if torch.cuda.device_count() >= ranks else "cpu"
    job = {
        "model": str(Path(model).resolve()),
        "dtype": str(dtype).removeprefix("torch."),
        "device": device,
        "prompt_ids": check_ids_in_a_row("prompt_ids", prompt_ids),
        "next_ids": check_ids_in_a_row("next_ids", next_ids),
    }
    with tempfile.TemporaryDirectory(prefix="inside-generate-") as name:
        folder = Path(name)
        (folder / "job.json").write_text(json.dumps(job), "utf-8")
        _run(folder, ranks, device, timeout_s)
        return [_read(folder, rank) for rank in range(ranks)]


def torchrun(ranks: int, program: str, *arguments: str) -> list[str]:
    """Return the command that starts ``ranks`` processes of a module, all on this machine."""
    return [
        *(sys.executable, "-m", "torch.distributed.run"),
        *("--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", str(ranks)),
        *("-m", program, *arguments),
    ]


def surroundings(ranks: int, device: str) -> dict[str, str]:
    """Return what is set for the ranks: threads shared out, the loopback, no other device."""
    threads = max(1, torch.get_num_threads() // ranks)
    settings = {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    if sys.platform == "linux":
        settings["GLOO_SOCKET_IFNAME"] = "lo"  # gloo would go by the machine's name
    if device == "cpu":
        settings["CUDA_VISIBLE_DEVICES"] = ""  # the library takes a GPU where it sees one
    return settings


def _run(folder: Path, ranks: int, device: str, timeout_s: float) -> None:
    log = folder / "log"
    command = torchrun(ranks, PROGRAM, str(folder))
    with child(command, log, surroundings(ranks, device)) as process:

        def done() -> bool:
            failed = any(folder.glob("rank-*.error"))
            return failed or process.poll() is not None

        wait_until(done, process, log, timeout_s, f"the model cut over {ranks} processes")
    for path in sorted(folder.glob("rank-*.error")):
        raise InsideGenerateError(f"{path.stem} failed: {path.read_text('utf-8')}")
    if process.returncode:
        code = process.returncode
        raise InsideGenerateError(f"torchrun ended with {code}: {last_words(log)}")


def _config(model: str | Path) -> Any:
    try:
        return AutoConfig.from_pretrained(model, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise InsideGenerateError(
            f"cannot read the config of {shown(str(model))}: {in_a_line(error)}"
        ) from error


def _read(folder: Path, rank: int) -> Rank:
    found: dict[str, Any] = json.loads((folder / f"rank-{rank}.json").read_text("utf-8"))
    weights = {
        name: Part(tuple(whole), tuple(own), axis)
        for name, (whole, own, axis) in found.pop("weights").items()
    }
    transfers = [
        [Transfer(name, tuple(shape), size) for name, shape, size in forward]
        for forward in found.pop("transfers")
    ]
    logits = load_file(folder / f"rank-{rank}.safetensors")["logits"]
    keys = tuple(found.pop("cached_keys"))
    return Rank(**found, weights=weights, transfers=transfers, cached_keys=keys, logits=logits)
