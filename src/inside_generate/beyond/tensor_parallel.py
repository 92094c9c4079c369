"""One rank of a model cut by tensor parallelism: a program that ``torchrun`` starts several times.

Loads its part of the weights, runs a prompt and then given tokens through the model together with
the other ranks, and writes what it saw: shapes, bytes, transfers, logits. Started by ``ranks.py``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import torch
import torch.distributed
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor, Shard
from transformers import AutoModelForCausalLM
from transformers.distributed import DistributedConfig

from inside_generate.beyond.traffic import Collectives
from inside_generate.errors import in_a_line
from inside_generate.loop import cached_keys_and_values, number_of_cached_layers
from inside_generate.quiet import quiet


def main(folder: Path) -> int:
    """Run this rank's part of ``job.json``; leave ``rank-N.json``, or one line on what failed."""
    rank = int(os.environ["RANK"])
    try:
        job = json.loads((folder / "job.json").read_text("utf-8"))
        report, logits = run(job)
    except Exception as error:  # whatever it is, the one who started us is told
        line = f"{type(error).__name__}: {in_a_line(error)}"
        (folder / f"rank-{rank}.error").write_text(line, "utf-8")
        return 1
    save_file({"logits": logits}, folder / f"rank-{rank}.safetensors")
    (folder / f"rank-{rank}.json").write_text(json.dumps(report), "utf-8")
    torch.distributed.destroy_process_group()
    return 0


@torch.inference_mode()
def run(job: dict[str, Any]) -> tuple[dict[str, Any], torch.Tensor]:
    """Return a rank's report, and the logits of the last position after each forward, [n, V]."""
    model = load_part(job["model"], job["dtype"], job["device"])
    rows, transfers, cache = [], [], None
    for ids in (job["prompt_ids"], *([token] for token in job["next_ids"])):
        token_ids = torch.tensor([ids], device=model.device)  # [1, L], then [1, 1]
        with Collectives() as seen:
            output = model(token_ids, cache=cache, use_cache=True, logits_to_keep=1)
        cache = output.cache
        rows.append(output.logits[0, -1].cpu())
        transfers.append([[part.name, part.shape, part.bytes] for part in seen.transfers])
    keys, _ = cached_keys_and_values(cache, 0)
    return {
        "rank": torch.distributed.get_rank(),
        "ranks": torch.distributed.get_world_size(),
        "backend": torch.distributed.get_backend(),
        "device": str(model.device),
        "weights": parts(model),
        "weight_bytes": sum(local(weight).nbytes for weight in model.parameters()),
        "cached_keys": list(keys.shape),
        "cache_bytes": sum(
            part.nbytes
            for layer in range(number_of_cached_layers(cache))
            for part in cached_keys_and_values(cache, layer)
        ),
        "transfers": transfers,
        "process_bytes": psutil.Process().memory_info().rss,
    }, torch.stack(rows)


def load_part(model: str, dtype: str, device: str) -> Any:
    """Return the model, of which this process holds its rank's part of the cut matrices."""
    ranks = int(os.environ["WORLD_SIZE"])
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    else:  # the library takes the accelerator that it sees, and refuses Apple's
        torch._C._get_accelerator = lambda *_: torch.device("cpu")
    torch.distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    with quiet():
        return AutoModelForCausalLM.from_pretrained(
            model,
            dtype=getattr(torch, dtype),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            distributed_config=DistributedConfig(tp_size=ranks),
        ).eval()


def parts(model: torch.nn.Module) -> dict[str, Any]:
    """Return for each weight its whole shape, this rank's shape, and the axis that is cut."""
    found = {}
    for name, weight in model.named_parameters():
        placed = weight.placements[0] if isinstance(weight, DTensor) else None
        axis = placed.dim if isinstance(placed, Shard) else None
        found[name] = [list(weight.shape), list(local(weight).shape), axis]
    return found


def local(weight: torch.Tensor) -> torch.Tensor:
    """Return what this process holds of a weight."""
    return weight.to_local() if isinstance(weight, DTensor) else weight


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
