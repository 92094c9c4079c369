"""The library's ``generate()``, asked for the plainest answer: greedy, no penalty, no EOS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch
from transformers import GenerationConfig, PreTrainedModel
from transformers.generation.streamers import BaseStreamer

from inside_generate.ladder.agreement import FreeRun
from inside_generate.ladder.rungs import Inputs
from inside_generate.timing import device_clock


def answer_of_generate(model: PreTrainedModel, inputs: Inputs, tokens: int) -> FreeRun:
    """Return ids and times of ``generate()``, with a look at the clock for each token."""
    stamps = Stamps(model.device)
    with plain_generation_config(model):
        stamps.start()
        model.generate(**inputs, max_new_tokens=tokens, streamer=stamps)
    return stamps.run()


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
    """The tokens, and when each was there. ``generate()`` calls it as its streamer."""

    def __init__(self, device: torch.device) -> None:
        self.clock = device_clock(device)
        self.start()

    def start(self) -> None:
        """Start the clock."""
        self.prompt_seen = False
        self.ids: list[int] = []
        self.times_s = [self.clock()]

    def put(self, token_ids: torch.Tensor) -> None:
        """Take a token from ``generate()``; its first call brings the prompt."""
        if self.prompt_seen:
            self.ids.append(int(token_ids))
            self.times_s.append(self.clock())
        self.prompt_seen = True

    def end(self) -> None:
        """Nothing is kept back, so there is nothing to do."""

    def run(self) -> FreeRun:
        """Return the run."""
        seconds = tuple(after - before for before, after in pairwise(self.times_s))
        return FreeRun(tuple(self.ids), seconds)
