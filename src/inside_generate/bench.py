"""``bench``: what a token costs in the loop of this book and in the library's ``generate()``.

Both run on the same model in the same process, in turn, so that a machine which slows down slows
both. Medians are reported, with the smallest and the largest value beside them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from transformers import BatchEncoding, GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.generation.streamers import BaseStreamer

from inside_generate import timing
from inside_generate.chat import encode
from inside_generate.environment import describe
from inside_generate.loop import stream
from inside_generate.models import load

Say = Callable[[str], None]
PROMPT = "Why is the sky blue?"


@dataclass(frozen=True)
class Times:
    """The two times of one run of T tokens, in seconds."""

    ttft_s: float
    tpot_s: float


def run(
    model: str, device: str, dtype: str, new_tokens: int, pairs: int, say: Say
) -> dict[str, Any]:
    """Measure, print a card and return what was measured as one JSON-ready object."""
    tokenizer, network = load(model, device, dtype)
    inputs = encode(tokenizer, PROMPT, network.device)
    ours, library = [], []
    for number, pair in enumerate(timed_pairs(network, tokenizer, inputs, new_tokens, pairs)):
        ours.append(pair["dynamic"])
        library.append(pair["generate"])
        say(
            f"pair {number + 1} of {pairs}: TPOT {1000 * ours[-1].tpot_s:.1f} ms, "
            f"generate() {1000 * library[-1].tpot_s:.1f} ms"
        )
    return {
        **describe(network),
        "threads": torch.get_num_threads(),
        "prompt_tokens": inputs["input_ids"].shape[1],
        "new_tokens": new_tokens,
        "pairs": pairs,
        **spread(
            "ratio_to_generate", [a.tpot_s / b.tpot_s for a, b in zip(ours, library, strict=True)]
        ),
        "generate": summary(library),
        "rungs": [{"name": "dynamic", **summary(ours)}],
    }


def timed_pairs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    inputs: BatchEncoding,
    new_tokens: int,
    pairs: int,
) -> Iterator[Mapping[str, Times]]:
    """Yield the times of both loops, pair by pair, after one warm-up of each.

    Who goes first alternates, so that neither always runs on the warmer cache.
    """
    runs: dict[str, Callable[[], Times]] = {
        "dynamic": lambda: time_loop(model, tokenizer, inputs, new_tokens),
        "generate": lambda: time_generate(model, inputs, new_tokens),
    }
    order = list(runs)
    for name in order:
        runs[name]()
    for _ in range(pairs):
        yield {name: runs[name]() for name in order}
        order.reverse()


def time_loop(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    inputs: BatchEncoding,
    new_tokens: int,
) -> Times:
    """Time the book's loop on the wall clock: records and text of each token included."""
    stamps = Stamps(model.device)
    # No EOS id: each run then has the same number of tokens.
    for _ in stream(model, tokenizer, inputs, max_new_tokens=new_tokens, eos_token_ids=()):
        stamps.mark()
    return stamps.times()


def time_generate(model: PreTrainedModel, inputs: BatchEncoding, new_tokens: int) -> Times:
    """Time the library's ``generate()``: greedy, no penalty, no EOS, a stamp for each token."""
    stamps = Stamps(model.device)
    with plain_generation_config(model):
        stamps.start_s = stamps.clock()
        model.generate(**inputs, max_new_tokens=new_tokens, streamer=stamps)
    return stamps.times()


@contextmanager
def plain_generation_config(model: PreTrainedModel) -> Iterator[None]:
    """Give the model a generation config without sampling, penalty and EOS for a while.

    A config that is handed to ``generate()`` would not do: what it leaves open, such as EOS, is
    taken from the model's own.
    """
    own = model.generation_config
    model.generation_config = GenerationConfig(do_sample=False, pad_token_id=0)
    try:
        yield
    finally:
        model.generation_config = own


class Stamps(BaseStreamer):
    """The time at which each token was there. ``generate()`` calls it as its streamer."""

    def __init__(self, device: torch.device) -> None:
        self.clock = timing.device_clock(device)
        self.start_s = self.clock()
        self.token_s: list[float] = []
        self.prompt_seen = False

    def put(self, _: torch.Tensor) -> None:
        """Take a token from ``generate()``; its first call brings the prompt."""
        if self.prompt_seen:
            self.mark()
        self.prompt_seen = True

    def end(self) -> None:
        """Nothing is kept back, so there is nothing to do."""

    def mark(self) -> None:
        """Note that a token is there."""
        self.token_s.append(self.clock())

    def times(self) -> Times:
        """Return TTFT and TPOT of the run."""
        edges = pairwise([self.start_s, *self.token_s])
        seconds = [after - before for before, after in edges]
        tpot = timing.tpot_s(seconds)
        if tpot is None:
            raise ValueError("a time per output token needs at least 2 tokens")
        return Times(timing.ttft_s(seconds), tpot)


def summary(runs: list[Times]) -> dict[str, Any]:
    """Return medians and spread of some runs, in milliseconds."""
    tpot_ms = [1000 * times.tpot_s for times in runs]
    return {
        **spread("ttft_ms", [1000 * times.ttft_s for times in runs]),
        **spread("tpot_ms", tpot_ms),
        "tokens_per_s": round(1000 / median(tpot_ms), 2),
    }


def spread(name: str, values: list[float]) -> dict[str, Any]:
    """Return the median under ``name`` and, beside it, the smallest and the largest value."""
    low, middle, high = (round(x, 4) for x in (min(values), median(values), max(values)))
    return {name: middle, f"{name}_min_max": [low, high]}


def card(result: Mapping[str, Any]) -> str:
    """Return the result for a reader."""
    loop, library = result["rungs"][0], result["generate"]
    low, high = result["ratio_to_generate_min_max"]
    sizes = f"{result['prompt_tokens']} prompt tokens, {result['new_tokens']} new ones"
    rows = {
        "model": f"{result['model_id']}, {result['dtype']}",
        "machine": f"{result['device']}: {result['device_name']}, {result['threads']} threads",
        "run": f"{sizes}, medians of {result['pairs']} pairs",
        "TTFT": f"loop {loop['ttft_ms']:.1f} ms, generate() {library['ttft_ms']:.1f} ms",
        "TPOT": f"loop {loop['tpot_ms']:.1f} ms, generate() {library['tpot_ms']:.1f} ms",
        "ratio": f"{result['ratio_to_generate']:.3f} (loop / generate(), {low:.3f} to {high:.3f})",
    }
    return "\n".join(f"{name:<9}{value}" for name, value in rows.items())


def last_line(result: Mapping[str, Any]) -> str:
    """Return the result for a program: one line of JSON."""
    return json.dumps(result, ensure_ascii=False, allow_nan=False)
