"""The rungs: the same loop for one prompt, each time with one thing changed.

A rung takes a prompt with ``start`` and one token with ``step``; both return logits [1, V]. It
keeps its own cache. Every rung after the first reads what is in that cache instead of computing it
again; from ``Static`` on all shapes stay the same, which is what a compiler needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Protocol

import torch
from transformers import PreTrainedModel, StaticCache

from inside_generate.checks import check_room, check_window
from inside_generate.errors import InsideGenerateError
from inside_generate.guards import check_sizes
from inside_generate.ladder.compiling import compiled, gist, is_compilers_error
from inside_generate.ladder.rows import with_row_kernels
from inside_generate.loop import append_one, cached_keys_and_values, decode_step, prefill

Inputs = Mapping[str, torch.Tensor]  # input_ids and attention_mask, [1, L], without padding


class RungUnavailable(InsideGenerateError):
    """A rung that this machine cannot run, and what is missing."""


class Rung(Protocol):
    """One way to run the loop for a single prompt."""

    name: ClassVar[str]
    why: ClassVar[str]  # why it is faster than the rung below, in one sentence
    same_weights: ClassVar[bool]  # whether it computes with the model's own weights
    model: PreTrainedModel  # what it reads its weights from

    def start(self, inputs: Inputs) -> torch.Tensor:
        """Forget what was, take in a prompt, return the logits that score the first token."""
        ...

    def step(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Take in one token, [1, 1], and return the logits that score the next one."""
        ...

    def positions_read(self, context: int) -> int:
        """Return of how many positions a step reads keys and values, with ``context`` cached."""
        ...


class NoCache:
    """Everything again for each token: prompt and answer so far go through the model."""

    name: ClassVar[str] = "no_cache"
    same_weights: ClassVar[bool] = True
    why: ClassVar[str] = "the rung to beat: each step computes all tokens so far again"

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.ids = torch.empty(1, 0)

    def start(self, inputs: Inputs) -> torch.Tensor:
        """Take in a prompt."""
        self.ids = inputs["input_ids"]  # [1, L]
        return self._run()

    def step(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Take in one token."""
        self.ids = torch.cat([self.ids, token_ids], dim=-1)  # [1, L + n]
        return self._run()

    def positions_read(self, context: int) -> int:  # noqa: ARG002 - the same for every context
        """Return 0: there are no keys and values of earlier steps."""
        return 0

    def _run(self) -> torch.Tensor:
        everything = {"input_ids": self.ids, "attention_mask": torch.ones_like(self.ids)}
        return prefill(self.model, everything).logits


class Dynamic:
    """The loop of this book: a cache that grows by one token a step."""

    name: ClassVar[str] = "dynamic"
    same_weights: ClassVar[bool] = True
    why: ClassVar[str] = "past keys and values are kept, so a step computes one token"

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model

    def start(self, inputs: Inputs) -> torch.Tensor:
        """Take in a prompt."""
        self.mask = inputs["attention_mask"]
        forward = prefill(self.model, inputs)
        self.cache = forward.cache
        return forward.logits

    def step(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Take in one token."""
        self.mask = append_one(self.mask)
        return decode_step(self.model, token_ids, self.cache, self.mask).logits

    def positions_read(self, context: int) -> int:
        """Return all that is in the cache."""
        return context


def fixed_step(
    model: PreTrainedModel, token_ids: torch.Tensor, position: torch.Tensor, cache: StaticCache
) -> torch.Tensor:
    """Run one token, [1, 1], at ``position``, [1, 1]; no tensor's shape depends on how far we are.

    The cache counts its tokens in a tensor, and hides the places that are still empty.
    """
    output = model(input_ids=token_ids, position_ids=position, cache=cache, use_cache=True)
    logits: torch.Tensor = output.logits[:, -1]  # [1, V]
    return logits


class Static:
    """A cache whose places are all there from the start."""

    name: ClassVar[str] = "static"
    same_weights: ClassVar[bool] = True
    why: ClassVar[str] = "nothing grows: no copy of the cache at each step, every shape fixed"

    def __init__(self, model: PreTrainedModel, slots: int) -> None:
        check_sizes(1, slots=slots)
        check_window(slots, model.config)
        self.model, self.slots = model, slots
        self.cache = StaticCache(config=model.config, max_cache_len=slots)
        self.run = fixed_step
        self.taken_in = 0  # tokens

    def start(self, inputs: Inputs) -> torch.Tensor:
        """Take in a prompt."""
        ids = inputs["input_ids"]
        with torch.inference_mode():
            self.cache.reset()
            self.taken_in = ids.shape[1]
            return prefill(self.model, inputs, cache=self.cache).logits

    def step(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Take in one token."""
        check_room(self.taken_in + 1, self.slots)
        with torch.inference_mode():
            position = torch.full_like(token_ids, self.taken_in)  # they count from 0
            self.taken_in += 1
            return self.run(self.model, token_ids, position, self.cache)

    def positions_read(self, context: int) -> int:  # noqa: ARG002 - the same for every context
        """Return all places: the empty ones are read too, and hidden by the mask."""
        return self.slots


class Compiled(Static):
    """The same step as one compiled program."""

    name: ClassVar[str] = "compiled"
    why: ClassVar[str] = (
        "one program without Python between its kernels, and products made for a single row"
    )

    def __init__(self, model: PreTrainedModel, slots: int) -> None:
        super().__init__(with_row_kernels(model, int8=not self.same_weights), slots)
        self.run = compiled(fixed_step, self.model)

    def step(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Take in one token. The first call compiles, for many seconds."""
        try:
            return super().step(token_ids)
        except Exception as error:
            if not is_compilers_error(error):
                raise
            raise RungUnavailable(f"the step cannot be compiled here: {gist(error)}") from error


class Int8(Compiled):
    """Another model: the weights of all matrices rounded to 8-bit integers."""

    name: ClassVar[str] = "int8"
    why: ClassVar[str] = "half the bytes of 16-bit weights; the numbers are others, so is the model"
    same_weights: ClassVar[bool] = False


def held_bytes(rung: Rung) -> int:
    """Return the bytes of the tensors that the rung's loop holds: all weights, and its cache."""
    tensors: list[torch.Tensor] = [*rung.model.parameters(), *rung.model.buffers()]
    cache = getattr(rung, "cache", None)
    if cache is not None:
        for layer in range(len(cache.layers)):
            tensors += cached_keys_and_values(cache, layer)
    return _bytes_of(tensors)


def _bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of the memory that tensors look into, counted once where they share it."""
    stores = [tensor.untyped_storage() for tensor in tensors]
    return sum({store.data_ptr(): store.nbytes() for store in stores}.values())
