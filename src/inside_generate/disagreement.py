"""Two programs over the same tokens: how far their logits lie apart, and whether that is rounding.

What it knows: how to feed given tokens to the loop (teacher forcing), and what follows from two
rows of logits a step. What it leaves to others: how far apart rounding may push (``rounding``),
and runs that are read from files (``comparing``).

Shapes: ``B`` rows, ``L`` prompt columns, ``T`` generated tokens, ``V`` vocabulary.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.nn.functional import pad
from transformers import PreTrainedModel

from inside_generate.checks import check_id_tensor, ids_and_mask
from inside_generate.guards import check_numbers
from inside_generate.loop import append_one, decode_step, prefill


def forced(
    model: PreTrainedModel, inputs: Mapping[str, torch.Tensor], token_ids: torch.Tensor
) -> torch.Tensor:
    """Return the logits that score each of the given tokens, [B, T, V]: prefill, then decode.

    ``inputs`` is a prompt [B, L]; ``token_ids`` [B, T] are fed in, whatever the model would choose,
    so that two programs see the same at every step. In float32, on the CPU.
    """
    prompt_ids, mask = ids_and_mask(inputs, model)
    _check_ids(token_ids, prompt_ids)
    step = prefill(model, inputs)
    logits = [_kept(step.logits)]  # [B, V]
    for column in token_ids.T[:-1]:  # the last token is scored and never fed in
        mask = append_one(mask)
        step = decode_step(model, column[:, None], step.cache, mask)
        logits.append(_kept(step.logits))
    return torch.stack(logits, dim=1)


def forced_at_once(
    model: PreTrainedModel, inputs: Mapping[str, torch.Tensor], token_ids: torch.Tensor
) -> torch.Tensor:
    """Return the same logits, [B, T, V], from one forward over prompt and answer: no cache used."""
    prompt_ids, mask = ids_and_mask(inputs, model)
    _check_ids(token_ids, prompt_ids)
    fed = token_ids[:, :-1]  # [B, T - 1]
    whole = {
        "input_ids": torch.cat([prompt_ids, fed], dim=-1),
        "attention_mask": pad(mask, (0, fed.shape[1]), value=1),
    }
    logits = prefill(model, whole, keep_all_logits=True).all_logits
    assert logits is not None
    return _kept(logits[:, mask.shape[1] - 1 :])


def _kept(logits: torch.Tensor) -> torch.Tensor:
    return logits.float().cpu()


def _check_ids(token_ids: torch.Tensor, prompt_ids: torch.Tensor) -> None:
    check_id_tensor(token_ids)
    if token_ids.dim() != 2 or len(token_ids) != len(prompt_ids) or token_ids.shape[1] < 1:
        raise ValueError(
            f"token_ids must be [{len(prompt_ids)}, T] with T at least 1, "
            f"not {list(token_ids.shape)}"
        )


# --- what two programs' logits say ----------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """How two programs' logits differ, step by step, on the same tokens."""

    errors: tuple[float, ...]  # the largest difference of any logit, one a step
    margins: tuple[float, ...]  # the first program's best logit minus its second best
    choices: tuple[int, ...]  # the first program's best token at each step
    other_choices: tuple[int, ...]

    @property
    def largest(self) -> float:
        """The largest error of any step; NaN where a logit is no number."""
        return float(torch.tensor(self.errors).max())

    @property
    def open_steps(self) -> tuple[int, ...]:
        """Steps, from 1, at which errors of this size could change the choice.

        Each of two logits may move by the error, towards each other: twice the error against the
        margin. At any other step both programs choose the same.
        """
        pairs = enumerate(zip(self.errors, self.margins, strict=True), start=1)
        return tuple(number for number, (error, margin) in pairs if not 2 * error < margin)

    @property
    def partings(self) -> tuple[int, ...]:
        """Steps, from 1, at which the two programs do choose different tokens."""
        pairs = enumerate(zip(self.choices, self.other_choices, strict=True), start=1)
        return tuple(number for number, (ours, theirs) in pairs if ours != theirs)

    def verdict(self, tolerance: float) -> str:
        """Return "rounding" where no logit is off by more than ``tolerance``, else "bug"."""
        check_numbers("tolerance", [tolerance], low=0)
        return "rounding" if self.largest <= tolerance else "bug"  # NaN is a bug as well


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> Difference:
    """Compare two programs' logits of the same steps, both [T, V]."""
    if ours.dim() != 2 or ours.shape != theirs.shape or ours.shape[0] < 1 or ours.shape[1] < 2:
        raise ValueError(
            "both must be [T, V] with T at least 1 and V at least 2, "
            f"not {list(ours.shape)} and {list(theirs.shape)}"
        )
    ours, theirs = ours.float().cpu(), theirs.float().cpu()  # bf16 would round the difference
    best, second = ours.topk(2, dim=-1).values.unbind(dim=-1)  # each [T]
    return Difference(
        errors=tuple((ours - theirs).abs().amax(dim=-1).tolist()),
        margins=tuple((best - second).tolist()),
        choices=tuple(ours.argmax(dim=-1).tolist()),
        other_choices=tuple(theirs.argmax(dim=-1).tolist()),
    )


# --- the same weights in a finer format -----------------------------------------------------------


@contextmanager
def in_dtype(model: PreTrainedModel, dtype: torch.dtype) -> Iterator[PreTrainedModel]:
    """Compute in a finer ``dtype`` for the length of a ``with``; ``ValueError`` for a coarser one.

    Every number of the old format is one of the finer format too, so the weights stay the same
    numbers, there and back. Buffers, such as RoPE's table of speeds, are left as they are.
    """
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ValueError(f"dtype must be torch's and floating-point, not {dtype!r}")
    before = [parameter.dtype for parameter in model.parameters()]
    for held in before:
        if torch.promote_types(held, dtype) != dtype:
            raise ValueError(f"{dtype} cannot hold every number of {held}: load the model in it")
    for parameter in model.parameters():
        # Weights fresh from a file lie in one mapping of it, which is freed as a whole only: both
        # formats of all weights would be in memory at once.
        if not parameter.untyped_storage().resizable():
            parameter.data = parameter.data.clone()
    try:
        _convert(model, [dtype] * len(before))
        yield model
    finally:
        _convert(model, before)


def _convert(model: PreTrainedModel, dtypes: list[torch.dtype]) -> None:
    """Give each parameter its format; they need not all have the same.

    The largest come first: what each leaves free is then room for the ones after it.
    """
    pairs = zip(model.parameters(), dtypes, strict=True)
    for parameter, dtype in sorted(pairs, key=lambda pair: pair[0].numel(), reverse=True):
        parameter.data = parameter.data.to(dtype)  # one at a time: the old copy is freed at once
    _give_back_freed_memory()


def _give_back_freed_memory() -> None:
    """Let the system have what was freed, where the C library is glibc.

    It keeps the gaps between weights that are still there, and a few changes of format would
    leave gaps as large as a model.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
