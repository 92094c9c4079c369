"""One program for one decode step: ``torch.compile``, and what makes it worth while here.

On a CPU the layers are compiled once and used for all of them, which keeps the first call short.
On a GPU the whole step becomes one CUDA graph: the processor hands it in with a single call, where
the plain loop hands in hundreds of small kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from inside_generate.errors import shortened

Step = Callable[..., torch.Tensor]


def compiled(step: Step, model: PreTrainedModel) -> Step:
    """Return ``step``, a function that runs ``model`` on tensors of fixed shapes, compiled.

    ``fullgraph`` refuses a step that could not become one program, and ``dynamic=False`` makes
    none that would fit other shapes as well. Each step compiled here is compiled once: where it
    would have to be compiled again, it raises. What others compiled does not count.
    """
    settings: dict[str, Any] = {
        "fullgraph": True,
        "dynamic": False,
        "recompile_limit": 1,
        "isolate_recompiles": True,
    }
    if model.device.type != "cuda":
        share_one_layer(model)
        return torch.compile(step, **settings)
    options: dict[str, Any] = {"triton.cudagraphs": True, "coordinate_descent_tuning": True}
    graph = torch.compile(step, options=options, **settings)

    def run(*arguments: Any) -> torch.Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        return graph(*arguments).clone()  # the next run writes into the same memory

    return run


def share_one_layer(model: PreTrainedModel) -> None:
    """Mark the layers as repeats of each other: the compiler makes the code of one for all.

    Models that keep their layers under another name are compiled all the same, and longer.
    """
    layers: Iterable[nn.Module] = getattr(model.base_model, "layers", [])
    regions: dict[type[nn.Module], Step] = {}
    for layer in layers:
        kind = type(layer)
        if kind not in regions:
            regions[kind] = torch.compiler.nested_compile_region(kind.forward)
        layer.forward = MethodType(regions[kind], layer)


def is_compilers_error(error: Exception) -> bool:
    """Return whether the compiler raised this. Its errors have no common class of their own."""
    return type(error).__module__.startswith(("torch._dynamo", "torch._inductor", "triton"))


def gist(error: Exception) -> str:
    """Return in a line what a compiler's long message says, and what to type where that helps."""
    if type(error).__name__ == "FailOnRecompileLimitHit":
        return "it would have to be compiled again, for the next token"
    cause = getattr(error, "inner_exception", error)
    lines = [shortened(line) for line in str(cause).splitlines() if line.strip()]
    telling = [line for line in lines if " error: " in line] or lines
    line = telling[0] if telling else type(cause).__name__
    is_missing = any(word in line for word in ("ompiler", ".h: No such file"))
    return f"{line}; type `python -m inside_generate doctor`" if is_missing else line
