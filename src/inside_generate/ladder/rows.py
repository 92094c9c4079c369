"""A weight matrix times a single row, written so that a compiler makes one loop over it.

Each decode step multiplies every weight matrix with one row of numbers. The library calls a
routine for products of two matrices, which is made for many rows. What counts for one row is how
fast the weights come out of memory, so here each is read once, and nothing as large as they are
is made. Run uncompiled this is slow: it then makes a tensor as large as the weights at each step.
"""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn.functional import linear
from transformers import PreTrainedModel

from inside_generate.ceilings import best_seconds
from inside_generate.timing import device_clock

# Rows of the matrix that one loop reads side by side: four keep more of the memory busy than one,
# as chapter 18 measures.
ROWS_AT_ONCE = 4

# Inductor adds longer sums up with a more exact helper, which costs time (torch 2.13). Sums in
# float32 do not need it here, so longer ones are cut into parts.
LONGEST_SUM = 4096

# Some CPUs multiply matrices faster in float32, turning 16-bit weights into it included. That pays
# from so many rows on.
MANY_ROWS = 512


def times_row(weight: torch.Tensor, x: torch.Tensor, rows: int = ROWS_AT_ONCE) -> torch.Tensor:
    """Return ``weight @ x`` in float32: [out, in] and [in] to [out].

    On a GPU thousands of threads read side by side anyway: one kernel over all rows is best there.
    """
    if weight.is_cuda:
        return (weight.float() * x).sum(dim=-1)
    if len(weight) % rows:
        rows = 1
    parts = -(-len(x) // LONGEST_SUM)

    def sums(some_rows: torch.Tensor) -> torch.Tensor:  # [out / rows, in] → [out / rows]
        pairs = zip(x.chunk(parts), some_rows.chunk(parts, dim=-1), strict=True)
        first, *others = ((a * b.float()).sum(dim=-1) for a, b in pairs)
        return sum(others, start=first)

    return torch.cat([sums(some_rows) for some_rows in weight.chunk(rows)])


class RowLinear(nn.Module):
    """What ``nn.Linear`` does; for a single row and a compiler by ``times_row``.

    With a ``scale`` for each row the weights are 8-bit integers: each stands for its value times
    the scale of its row.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        scale: torch.Tensor | None,
        bias: torch.Tensor | None,
        widen: bool = False,
    ) -> None:
        super().__init__()
        self.weight, self.scale, self.bias = weight, scale, bias  # [out, in], [out], [out]
        self.widen = widen  # whether many rows are multiplied in float32

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [..., in] times the weights: [..., out]."""
        if x.numel() == x.shape[-1] and torch.compiler.is_compiling():
            y = times_row(self.weight, x.flatten().float()).view(*x.shape[:-1], -1)  # [..., out]
        elif self.scale is None and self.widen and x.shape[:-1].numel() >= MANY_ROWS:
            y = linear(x.float(), self.weight.float())  # the same weights: no number is rounded
        elif self.scale is None:  # as in prefill: what the library does
            return linear(x, self.weight, self.bias)
        else:  # 8-bit integers over 128 are exact in any format, and sums of them are not too large
            y = 128 * linear(x, self.weight.to(x.dtype) / 128).float()
        if self.scale is not None:
            y = y * self.scale
        if self.bias is not None:
            y = y + self.bias
        return y.to(x.dtype)


def in_int8(weight: torch.Tensor) -> tuple[nn.Parameter, nn.Parameter]:
    """Return [out, in] as 8-bit integers with one float32 scale a row, [out].

    The largest value of a row becomes ±127. Each weight is off by half a scale at most.
    """
    scale = weight.float().abs().amax(dim=-1).clamp(min=1e-30) / 127  # a row of zeros stays zero
    rounded = (weight.float() / scale[:, None]).round().to(torch.int8)
    return nn.Parameter(rounded, requires_grad=False), nn.Parameter(scale, requires_grad=False)


def with_row_kernels(model: PreTrainedModel, int8: bool = False) -> PreTrainedModel:
    """Return the model with ``RowLinear`` in the place of ``nn.Linear``; ``model`` is left alone.

    The weights are shared with ``model``, not copied; with ``int8`` the matrices are new ones, and
    a model that has others outside ``nn.Linear`` and embeddings is refused.
    """
    if int8:
        check_all_linear(model)
    widen = not int8 and float32_is_faster(model)
    keep = {id(parameter): parameter for parameter in model.parameters()}
    twin = copy.deepcopy(model, memo=keep)  # what the memo holds is not copied
    twin.name_or_path = twin.config.name_or_path = ""  # it was not loaded from anywhere
    for name, module in list(twin.named_modules()):
        if type(module) is nn.Linear:
            weight, scale = in_int8(module.weight) if int8 else (module.weight, None)
            rows = RowLinear(weight, scale, module.bias, widen)
            parent, _, child = name.rpartition(".")
            setattr(twin.get_submodule(parent), child, rows)
    return twin


def float32_is_faster(model: PreTrainedModel) -> bool:
    """Return whether many rows times a 16-bit matrix of this CPU go faster by way of float32."""
    matrix = next((one for one in model.modules() if type(one) is nn.Linear), None)
    if matrix is None or model.device.type != "cpu" or matrix.weight.dtype == torch.float32:
        return False
    clock = device_clock(model.device)
    x = matrix.weight.new_ones(MANY_ROWS, matrix.in_features)
    with torch.inference_mode():
        usual = best_seconds(lambda: linear(x, matrix.weight), clock)
        wide = best_seconds(lambda: linear(x.float(), matrix.weight.float()).to(x.dtype), clock)
    return wide < usual


def check_all_linear(model: PreTrainedModel) -> None:
    """Raise where a matrix belongs to another kind of module: it would not be rounded."""
    for name, module in model.named_modules():
        if type(module) is nn.Linear or isinstance(module, nn.Embedding):
            continue
        for parameter in module.parameters(recurse=False):
            if parameter.dim() > 1:
                raise ValueError(
                    f"{name or 'the model'} holds weights in a {type(module).__name__}: only those "
                    "of nn.Linear can be rounded here"
                )
