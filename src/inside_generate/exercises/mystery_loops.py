"""Three loops with one fault each, for an exercise of `17_breaking_it`. Reading on gives it away.

Each takes a model, a prompt's inputs (both [1, L]) and a number of decode steps, and returns the
greedy ids, the first one included. None of them ends at an EOS. They call the model directly, since
``decode_step`` refuses what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from transformers import Cache, PreTrainedModel

from inside_generate.loop import append_one, cached_length, prefill
from inside_generate.sampling import greedy

DecodeStep = Callable[[torch.Tensor, Cache, torch.Tensor], torch.Tensor]
Inputs = Mapping[str, torch.Tensor]


def first_loop(model: PreTrainedModel, inputs: Inputs, steps: int) -> list[int]:
    """Return the ids of a loop with a fault."""
    return _ids(model, inputs, steps, step_with_short_mask(model))


def second_loop(model: PreTrainedModel, inputs: Inputs, steps: int) -> list[int]:
    """Return the ids of a loop with a fault."""
    return _ids(model, inputs, steps, step_that_feeds_twice(model))


def third_loop(model: PreTrainedModel, inputs: Inputs, steps: int) -> list[int]:
    """Return the ids of a loop with a fault."""
    return _ids(model, inputs, steps, step_that_stands_still(model, inputs))


@torch.inference_mode()
def _ids(model: PreTrainedModel, inputs: Inputs, steps: int, step: DecodeStep) -> list[int]:
    mask, start = inputs["attention_mask"], prefill(model, inputs)
    ids = [greedy(start.logits)]  # [1]
    for _ in range(steps):
        mask = append_one(mask)
        ids.append(greedy(step(ids[-1][:, None], start.cache, mask)))
    return torch.cat(ids).tolist()


# --- the faulty steps: token ids [1, 1], a cache that they fill, the grown mask → logits [1, V] ---


def step_with_short_mask(model: PreTrainedModel) -> DecodeStep:
    """Return a step that hides the newest token from itself."""

    @torch.inference_mode()
    def step(token_ids: torch.Tensor, cache: Cache, mask: torch.Tensor) -> torch.Tensor:
        shorter = mask[:, :-1]
        return model(input_ids=token_ids, attention_mask=shorter, cache=cache).logits[:, -1]

    return step


def step_that_feeds_twice(model: PreTrainedModel) -> DecodeStep:
    """Return a step that runs its token through the model twice."""

    @torch.inference_mode()
    def step(token_ids: torch.Tensor, cache: Cache, mask: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            all_seen = mask.new_ones(1, cached_length(cache) + 1)
            output = model(input_ids=token_ids, attention_mask=all_seen, cache=cache)
        return output.logits[:, -1]

    return step


def step_that_stands_still(model: PreTrainedModel, inputs: Inputs) -> DecodeStep:
    """Return a step that places every token where the first one after the prompt stands."""
    length = inputs["input_ids"].shape[1]

    @torch.inference_mode()
    def step(token_ids: torch.Tensor, cache: Cache, mask: torch.Tensor) -> torch.Tensor:
        place = torch.full_like(token_ids, length)
        known = {"attention_mask": mask, "position_ids": place, "cache": cache}
        return model(input_ids=token_ids, **known).logits[:, -1]

    return step
