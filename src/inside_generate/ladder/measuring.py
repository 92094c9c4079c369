"""Who takes part, whether each is exact, and how long each takes: the work behind ``bench``.

Whoever fails is out, with the reason, and the others go on: engines and rungs meet models for which
nobody has tried them. Only the loop and ``generate()`` must not fail.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from inside_generate import engines
from inside_generate.errors import InsideGenerateError, in_a_line, shown
from inside_generate.ladder.agreement import FreeRun, agreement
from inside_generate.ladder.contestants import (
    OURS,
    Contestant,
    in_turn,
    make_rung,
    of_engine,
    of_rung,
)
from inside_generate.ladder.library import answer_of_generate
from inside_generate.ladder.rungs import Inputs
from inside_generate.memory import MIB
from inside_generate.timing import device_clock

Say = Callable[[str], None]
Guard = Callable[[str], AbstractContextManager[None]]  # of the work of whoever is named
Runs = list[dict[str, FreeRun]]  # one dictionary a round
NEEDED = ("generate", "dynamic")  # without these there is nothing to compare with
LONG_PROMPT_TOKENS = 1024
LONG_PROMPT_ROUNDS = 3


def check_names(names: Sequence[str] | None) -> list[str]:
    """Return the rungs to run; the loop with a growing cache is always among them."""
    there = [*OURS, *engine_names()]
    for name in names or ():
        if name not in there:
            raise InsideGenerateError(
                f"no rung is called {shown(name)}; there are: {', '.join(there)}; other engines "
                "have to be installed: python -m inside_generate engines"
            )
    return [name for name in there if names is None or name in (*names, "dynamic")]


def engine_names() -> list[str]:
    """Return the engines that are installed; llama.cpp takes part with 4-bit weights as well."""
    names = []
    for name in engines.installed():
        names += [name, f"{name} Q4"] if name == "llama.cpp" else [name]
    return names


def failures_into(not_run: dict[str, str], say: Say) -> Guard:
    """Return a guard that writes down who failed, and why, instead of raising."""

    @contextmanager
    def guard(name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # a foreign engine or model may raise anything
            if name in NEEDED:
                raise
            speaks_for_itself = isinstance(error, (InsideGenerateError, ValueError))
            kind = "" if speaks_for_itself else f"{type(error).__name__}: "
            not_run[name] = f"{kind}{in_a_line(error)}"
            say(f"{name}: not run: {not_run[name]}")

    return guard


def line_up(
    names: Iterable[str],
    model: PreTrainedModel,
    inputs: Inputs,
    tokens: int,
    say: Say,
    guard: Guard,
    stack: ExitStack,
) -> list[Contestant]:
    """Return who is ready. Engines run until ``stack`` is closed."""
    ready = []
    length = inputs["input_ids"].shape[1]
    slots, context = length + tokens - 1, length + tokens // 2  # the last token is never fed in
    for name in names:
        say(f"{name}: getting ready")
        with guard(name):
            if name in OURS:
                rung = make_rung(name, model, slots)
                ready.append(of_rung(rung, context, device_clock(model.device)))
            else:
                ready.append(_engine(name, model, context, stack))
    return ready


def _engine(name: str, model: PreTrainedModel, context: int, stack: ExitStack) -> Contestant:
    folder, quantised = Path(model.name_or_path), name.endswith(" Q4")
    kind = name.removesuffix(" Q4")
    check_same_device(kind, model.device.type)
    check_stored_dtype(folder, model.dtype)
    start = engines.start(kind, folder, torch.get_num_threads(), quantised)
    return of_engine(stack.enter_context(start), model, context, quantised)


def check_same_device(name: str, device: str) -> None:
    """Raise where an engine computes on another device than the loop: its share of what?"""
    theirs = engines.device_of(name)
    if theirs != device:
        raise InsideGenerateError(
            f"{name} computes on {theirs} here, and the loop on {device}; to compare the two type "
            f"--device {theirs}"
        )


def check_stored_dtype(folder: Path, dtype: torch.dtype) -> None:
    """Raise where an engine, which loads weights as they are stored, would compute in another."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    stored = str(config.get("dtype") or config.get("torch_dtype") or "float32")
    ours = str(dtype).removeprefix("torch.")
    if stored.removeprefix("torch.") != ours:
        raise InsideGenerateError(
            f"engines load these weights as they are stored, in {stored}, and the loop computes in "
            f"{ours}; to compare the two type --dtype {stored}"
        )


def judge(
    ready: Iterable[Contestant],
    model: PreTrainedModel,
    inputs: Inputs,
    tokens: int,
    say: Say,
    guard: Guard,
) -> dict[str, dict[str, Any]]:
    """Return whether each is exact, what its first call cost, and what it holds in memory."""
    by_name = {one.name: one for one in ready}
    ids = by_name["dynamic"].answer(inputs, tokens).ids
    reference = by_name["dynamic"].forced(inputs, ids)
    if not reference.isfinite().all():
        raise InsideGenerateError(f"the model's logits are no numbers in {model.dtype}")
    clock = device_clock(model.device)
    facts = {}
    for name, one in by_name.items():
        with guard(name):
            start = clock()
            one.answer(inputs, 2)
            first_call_s = round(clock() - start, 3)
            say(f"{name}: first call {first_call_s:.1f} s")
            logits, free_ids = one.forced(inputs, ids), one.answer(inputs, tokens).ids
            found = asdict(agreement(reference, ids, logits, free_ids, model.dtype))
            facts[name] = {
                **{key: _or_none(value) for key, value in found.items()},
                # However near it comes: other weights are another model.
                "exact": found["exact"] and one.same_weights,
                "first_call_s": first_call_s,
                "memory_mib": round(one.held_bytes() / MIB, 1),
            }
    return facts


def _or_none(value: Any) -> Any:
    """Return ``None`` for what is no number: JSON has no NaN and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def measure(
    ready: Iterable[Contestant],
    model: PreTrainedModel,
    inputs: Inputs,
    tokens: int,
    rounds: int,
    say: Say,
    guard: Guard,
) -> Runs:
    """Let all answer the prompt in turn, ``generate()`` among them."""

    def asked(one: Contestant) -> Callable[[], FreeRun]:
        return lambda: one.answer(inputs, tokens)

    answers = {"generate": lambda: answer_of_generate(model, inputs, tokens)}
    answers |= {one.name: asked(one) for one in ready}
    runs = []
    for number, found in enumerate(in_turn(answers, rounds, guard), start=1):
        runs.append(found)
        tpots = ", ".join(f"{name} {1000 * one.tpot_s:.1f}" for name, one in found.items())
        say(f"round {number} of {rounds}, TPOT in ms: {tpots}")
    return runs


def measure_long_prompt(
    ready: Iterable[Contestant], model: PreTrainedModel, rounds: int, say: Say, guard: Guard
) -> tuple[int, Runs]:
    """Let the loop, the compiled one, and engines with the same weights read a long prompt.

    Returned are its length and the runs.
    """
    window = getattr(model.config, "max_position_embeddings", None) or LONG_PROMPT_TOKENS + 1
    length = min(LONG_PROMPT_TOKENS, window - 1)  # one for the token that engines keep room for
    ids = torch.arange(length, device=model.device)[None] % model.config.vocab_size  # [1, L]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def asked(one: Contestant) -> Callable[[], FreeRun]:
        return lambda: one.answer(inputs, 1)

    readers = [one for one in ready if one.name == "dynamic" or (one.version and one.same_weights)]
    if any(one.name == "compiled" for one in ready):  # one with room for the prompt
        with guard("compiled"):
            rung = make_rung("compiled", model, slots=length)
            readers.append(of_rung(rung, length, device_clock(model.device)))
    say(f"{length} prompt tokens: {', '.join(one.name for one in readers)}")
    answers = {one.name: asked(one) for one in readers}
    return length, list(in_turn(answers, min(rounds, LONG_PROMPT_ROUNDS), guard))
