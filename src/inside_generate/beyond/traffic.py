"""What travels between the ranks of a model that is cut over several processes.

Predicted from a config, for the cut that the library makes of Qwen2, Llama and their kin; and
counted, by a mode that sees every collective operation of torch on its way to the processor.

Shapes: ``B`` batch, ``L`` positions, ``V`` vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PretrainedConfig

from inside_generate.cache import CONFIG, kv_heads
from inside_generate.guards import check_has, check_sizes

COLLECTIVES = ("c10d", "_c10d_functional")  # where torch keeps its operations between processes
SILENT = ("wait_tensor", "barrier", "_wrap_tensor_autograd")  # these move nothing
NAMES = {
    "allreduce_": "all-reduce",
    "all_reduce": "all-reduce",
    "all_reduce_": "all-reduce",
    "allgather_": "all-gather",
    "_allgather_base_": "all-gather",
    "all_gather_into_tensor": "all-gather",
    "all_gather_into_tensor_out": "all-gather",
}


@dataclass(frozen=True)
class Transfer:
    """One collective operation: its name, and the shape of what each rank put in."""

    name: str
    shape: tuple[int, ...]
    bytes: int  # of what one rank put in


def predicted(
    config: PretrainedConfig,
    ranks: int,
    length: int,
    batch: int = 1,
    dtype: torch.dtype = torch.bfloat16,
) -> list[Transfer]:
    """Return what one forward over ``length`` positions a row exchanges, last row of logits only.

    One sum for the embedding, whose rows are shared out; two in each layer, after attention and
    after the MLP; and each rank's part of the logits, put together.
    """
    check_ranks(config, ranks)
    check_sizes(1, length=length, batch=batch)
    if ranks == 1:
        return []
    hidden = (batch, length, config.hidden_size)
    sums = [_transfer("all-reduce", hidden, dtype)] * (1 + 2 * config.num_hidden_layers)
    logits = (batch, 1, math.ceil(config.vocab_size / ranks))
    return [*sums, _transfer("all-gather", logits, dtype)]


def bytes_sent(transfers: list[Transfer], ranks: int) -> int:
    """Return how many bytes one rank has to send at least, all transfers together.

    In a ring, where each rank sends to its neighbour only: 2 · (ranks − 1) / ranks of the bytes
    of a sum, and ranks − 1 times its own part where parts are put together.
    """
    check_sizes(1, ranks=ranks)
    shares = {"all-reduce": 2 * (ranks - 1) / ranks, "all-gather": ranks - 1}
    return round(sum(shares[transfer.name] * transfer.bytes for transfer in transfers))


def possible_ranks(config: PretrainedConfig) -> list[int]:
    """Return over how many processes the heads of a model can be shared out evenly."""
    check_has(config, "num_attention_heads", "num_hidden_layers", hint=CONFIG)
    heads = kv_heads(config)
    both = math.gcd(heads, config.num_attention_heads)
    return [ranks for ranks in range(1, heads + 1) if both % ranks == 0]


def check_ranks(config: PretrainedConfig, ranks: int) -> None:
    """Raise ``ValueError`` unless each rank gets as many whole KV heads as every other."""
    check_sizes(1, ranks=ranks)
    possible = possible_ranks(config)
    if ranks not in possible:
        raise ValueError(
            f"{kv_heads(config)} KV heads cannot be shared out evenly to {ranks} ranks; "
            f"choose one of {', '.join(map(str, possible))}"
        )


class Collectives(TorchDispatchMode):
    """Notes each collective operation that runs while the mode is on, in ``transfers``."""

    def __init__(self) -> None:
        super().__init__()
        self.transfers: list[Transfer] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operation, and note it where it is one between processes."""
        if DTensor in types:
            return NotImplemented  # it comes again, as what the local tensors do
        name = func._schema.name.split("::")[1]
        if func.namespace in COLLECTIVES and name not in SILENT:
            self.transfers.append(_noted(name, args))
        return func(*args, **(kwargs or {}))


def _noted(name: str, args: Any) -> Transfer:
    # All of these take what goes in first, but for the in-place gathers: there it comes second.
    given = args[1] if name in ("allgather_", "_allgather_base_") else args[0]
    while isinstance(given, list | tuple):
        given = given[0]
    return Transfer(NAMES.get(name, name), tuple(given.shape), given.nbytes)


def _transfer(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Transfer:
    return Transfer(name, shape, math.prod(shape) * dtype.itemsize)
