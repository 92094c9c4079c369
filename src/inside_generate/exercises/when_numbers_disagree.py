"""The checks of the exercises in `16_when_numbers_disagree`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from inside_generate.disagreement import forced_at_once
from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    number,
    plain,
    real_tensor,
    same,
    shown,
)


def check_three_numbers(value: Any) -> str:
    """Check three numbers, none above 1 in size, whose sum in bf16 depends on the order."""
    if value is ...:
        return UNTRIED
    try:
        found = [number(part) for part in plain(value)]
    except Exception:  # the value's own code may raise anything
        found = []
    if len(found) != 3 or not all(part is not None and abs(part) < torch.inf for part in found):
        return answer(f"this asks for three numbers, not for {shown(value)}")
    exact = torch.tensor(found, dtype=torch.float64)
    a, b, c = rounded = exact.bfloat16()
    if exact.abs().max() > 1:
        return answer("none of the three may be larger than 1 in size")
    if not torch.equal(rounded.double(), exact):
        return answer(f"they must be bf16 numbers: yours are rounded to {rounded.tolist()}")
    if torch.equal((a + b) + c, a + (b + c)):
        left = ((a + b) + c).item()
        return answer(
            f"both orders give {left}: a small number has to be lost beside a large one, and two "
            "small ones together must not be"
        )
    return RIGHT


def check_can_flip(function: Any) -> str:
    """Check ``function(margin, error)``: whether the best token may be another one."""
    margins = (0.125, 1.0, 0.25, 0.375, 0.5, 0.625)
    pairs = [(margin, 0.25) for margin in margins]  # two equal programs, error 0, never part
    return check_table(
        function,
        {(margin, error): margin <= 2 * error for margin, error in pairs},
        {
            "two logits move: the best one may fall while the second rises": (
                lambda margin, error: margin <= error
            ),
            "two logits move, and there may be a tie at the end": (
                lambda margin, error: margin < error
            ),
            "where they end up equal, the order of the ids decides: that can flip as well": (
                lambda margin, error: margin < 2 * error
            ),
            "the other way round: a large margin is the safe one": (
                lambda margin, error: margin >= 2 * error
            ),
        },
    )


# --- the first step at which two programs part ----------------------------------------------------


def _first_parting(ours: torch.Tensor, theirs: torch.Tensor) -> int | None:
    differing = (ours.argmax(dim=-1) != theirs.argmax(dim=-1)).nonzero()
    return int(differing[0]) + 1 if len(differing) else None


def _first_other_logits(ours: torch.Tensor, theirs: torch.Tensor) -> int | None:
    differing = (ours != theirs).any(dim=-1).nonzero()
    return int(differing[0]) + 1 if len(differing) else None


def _from_zero(ours: torch.Tensor, theirs: torch.Tensor) -> int | None:
    step = _first_parting(ours, theirs)
    return None if step is None else step - 1


def _last_parting(ours: torch.Tensor, theirs: torch.Tensor) -> int | None:
    differing = (ours.argmax(dim=-1) != theirs.argmax(dim=-1)).nonzero()
    return int(differing[-1]) + 1 if len(differing) else None


PARTINGS: dict[str, Callable[[torch.Tensor, torch.Tensor], int | None]] = {
    "steps are counted from 1": _from_zero,
    "other logits are no other choice: compare the best tokens": _first_other_logits,
    "that is the last such step; the first is asked for": _last_parting,
}


def check_first_parting(function: Any) -> str:
    """Check ``function(ours, theirs)``, both [T, V]: the first step, from 1, of another choice."""
    if function is ...:
        return UNTRIED
    generator = torch.Generator().manual_seed(0)
    ours = torch.randn(8, 12, generator=generator)
    nudged = ours + 1e-3  # other logits, the same choices
    early, late = nudged.clone(), nudged.clone()
    early[[0, 5]] = -early[[0, 5]]
    late[[3, 6]] = -late[[3, 6]]
    cases = [(ours, other) for other in (late, early, nudged, ours)]
    results = [attempt(function, our.clone(), other.clone()) for our, other in cases]
    for (result, error), case in zip(results, cases, strict=True):
        right = _first_parting(*case)
        if result is ...:
            return UNTRIED
        if error and not (result is None and right is None and "returns None" in error):
            return answer(f"{error} (where they part at step {right})")
        if not _is(result, right):
            found = [result for result, _ in results]
            return answer(_parting_hint(found, cases, result, right))
    return RIGHT


def _is(found: Any, right: int | None) -> bool:
    return found is None if right is None else same(found, right)


def _parting_hint(found: list[Any], cases: list[Any], result: Any, right: int | None) -> str:
    for hint, mistake in PARTINGS.items():
        if all(_is(one, mistake(*case)) for one, case in zip(found, cases, strict=True)):
            return hint
    if right is None:
        return f"where no choice differs, return None, not {shown(result)}"
    return f"two programs that part at step {right}: your function gives {shown(result)}"


# --- all steps in one forward ---------------------------------------------------------------------


def check_forced_at_once(function: Any) -> str:
    """Check ``function(model, prompt_ids, answer_ids)``, ids [1, L] and [1, T]: logits [T, V]."""
    if function is ...:
        return UNTRIED
    model = _small_model()
    for length, steps in ((5, 3), (4, 6), (3, 1)):
        hint = _forced_hint(function, model, length, steps)
        if hint:
            return UNTRIED if hint == UNTRIED else answer(hint)
    return RIGHT


def _forced_hint(function: Any, model: PreTrainedModel, length: int, steps: int) -> str | None:
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(0, 32, (1, length + steps), generator=generator)
    prompt, reply = ids[:, :length], ids[:, length:]
    result, error = attempt(function, model, prompt.clone(), reply.clone())
    if result is ...:
        return UNTRIED
    found = real_tensor(result)
    if error or found is None:
        return error or f"return a tensor, not {shown(result)}"
    right = forced_at_once(model, {"input_ids": prompt, "attention_mask": prompt * 0 + 1}, reply)[0]
    if found.shape != right.shape:
        return (
            f"{steps} tokens of the answer need {steps} rows of logits, {list(right.shape)}; yours "
            f"are {list(found.shape)}"
        )
    if _close(found, right):
        return None
    with torch.inference_mode():
        every = model(ids, use_cache=False).logits[0]  # [L + T, V]
    if _close(found, every[length:]):
        return "the row that scores a token comes out one position before that token"
    return "these are the logits of other positions, or of other tokens than those given"


def _close(found: torch.Tensor, right: torch.Tensor) -> bool:
    return bool(((found.double() - right.double()).abs() <= 1e-3).all())


def _small_model() -> PreTrainedModel:
    """Return a random model whose logits differ clearly from position to position."""
    config = Qwen2Config(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        initializer_range=0.3,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Qwen2ForCausalLM(config).eval()
