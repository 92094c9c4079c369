"""What ``bench`` needs of anything that answers a prompt, be it a rung of ours or an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from inside_generate.engines import Engine
from inside_generate.ladder.agreement import FreeRun, forced, free
from inside_generate.ladder.rungs import (
    Compiled,
    Dynamic,
    Inputs,
    Int8,
    NoCache,
    Rung,
    Static,
    held_bytes,
)
from inside_generate.step_bytes import step_bytes
from inside_generate.timing import Clock

GROWING: dict[str, type[NoCache | Dynamic]] = {kind.name: kind for kind in (NoCache, Dynamic)}
FIXED: dict[str, type[Static]] = {kind.name: kind for kind in (Static, Compiled, Int8)}
OURS = (*GROWING, *FIXED)


@dataclass(frozen=True)
class Contestant:
    """One way to answer, ready to be asked."""

    name: str
    why: str  # why it is faster than what stands before it
    same_weights: bool  # whether it computes with the model's own weights
    answer: Callable[[Inputs, int], FreeRun]  # so many tokens, greedily, without an EOS
    forced: Callable[[Inputs, Sequence[int]], torch.Tensor]  # logits [T, V], given tokens
    bytes_per_token: int | None  # what a decode step must read, in the middle of the answer
    held_bytes: Callable[[], int]  # weights and cache in use; of an engine its whole process
    version: str | None = None  # of an engine


def make_rung(name: str, model: PreTrainedModel, slots: int) -> Rung:
    """Return one of our rungs, for prompts and answers of ``slots`` tokens together."""
    return FIXED[name](model, slots) if name in FIXED else GROWING[name](model)


def of_rung(rung: Rung, context: int, clock: Clock) -> Contestant:
    """Return a rung as a contestant; ``context`` tokens are cached in the middle of an answer."""
    return Contestant(
        name=rung.name,
        why=rung.why,
        same_weights=rung.same_weights,
        answer=lambda prompt, count: free(rung, prompt, count, clock),
        forced=lambda prompt, ids: forced(rung, prompt, ids),
        bytes_per_token=step_bytes(rung.model, rung.positions_read(context)),
        held_bytes=lambda: held_bytes(rung),
    )


def of_engine(engine: Engine, model: PreTrainedModel, context: int, quantised: bool) -> Contestant:
    """Return a running engine as a contestant."""

    def answer(prompt: Inputs, count: int) -> FreeRun:
        run = engine.answer(prompt["input_ids"][0].tolist(), count)
        return FreeRun(tuple(run.ids), (run.ttft_s, *run.step_seconds))

    def logits(prompt: Inputs, ids: Sequence[int]) -> torch.Tensor:
        return engine.forced(prompt["input_ids"][0].tolist(), list(ids))

    return Contestant(
        name=f"{engine.name} Q4" if quantised else engine.name,
        why="another engine's own kernels, 4-bit weights" if quantised else "its own kernels",
        same_weights=not quantised,
        answer=answer,
        forced=logits,
        bytes_per_token=None if quantised else step_bytes(model, context),
        held_bytes=engine.memory_bytes,
        version=engine.version,
    )


def in_turn(
    contestants: Mapping[str, Callable[[], FreeRun]],
    rounds: int,
    guard: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> Iterator[dict[str, FreeRun]]:
    """Yield the runs of all, round by round, after one warm-up of each that is not counted.

    The order is turned round after each round, so that nobody always runs right after the same one.
    Each runs under ``guard(name)``; whoever that keeps from raising is out from then on.
    """
    order = list(contestants)
    for number in range(rounds + 1):
        found = {}
        for name in order:
            with guard(name):
                found[name] = contestants[name]()
        order = [name for name in order if name in found]
        if number > 0:  # the first one was the warm-up
            yield found
            order.reverse()
