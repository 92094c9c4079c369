"""The probability of several tokens together, and the search for the most probable ones.

What it knows: how conditional probabilities multiply, added up here as logarithms, and an exact
search that leaves out only what cannot win. What it leaves to others: the forwards (``loop.py``)
and the greedy choice (``sampling.py``).

All log-probabilities are natural logarithms, computed in fp32 from the model's logits, whatever
dtype these have. In 16-bit numbers a logit is itself rounded, so a margin smaller than
``rounding.logit_tolerance`` may turn out the other way in another program.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from inside_generate.checks import check_id_tensor, check_ids
from inside_generate.guards import check_ids_in_a_row, check_sizes
from inside_generate.loop import Forward, append_one, decode_step, prefill
from inside_generate.sampling import greedy


@dataclass(frozen=True)
class Continuation:
    """Some tokens that may follow a prompt, and how probable they are together."""

    token_ids: tuple[int, ...]
    log_probability: float  # of all of them, given the prompt

    @property
    def probability(self) -> float:
        """The joint probability: the product of the tokens' conditional ones."""
        return math.exp(self.log_probability)


@dataclass(frozen=True)
class Best:
    """What the exact search found, and what it cost."""

    continuation: Continuation
    runner_up: Continuation  # the best of all others
    expanded: int  # first tokens that were tried; the rest of the vocabulary could not win

    @property
    def margin(self) -> float:
        """By how much the best log-probability is above the runner-up's; 0 is a tie."""
        return self.continuation.log_probability - self.runner_up.log_probability


def sequence_log_probability(
    model: PreTrainedModel, prompt_ids: torch.Tensor, continuation: Sequence[int]
) -> float:
    """Return log P(continuation | prompt), from one forward over both.

    ``prompt_ids`` is [1, L]. The chain rule: position t scores token t + 1, so the positions from
    L − 1 on score the continuation, and the logarithms of its conditional probabilities add up.
    """
    check_prompt_ids(prompt_ids)
    follows = prompt_ids.new_tensor([_ids(model, continuation)])  # [1, n]
    input_ids = torch.cat([prompt_ids, follows], dim=-1)  # [1, L + n]
    logits = prefill(model, as_inputs(input_ids), keep_all_logits=True).all_logits
    assert logits is not None  # asked for
    scores = logits[0, prompt_ids.shape[1] - 1 : -1]  # [L + n, V] → [n, V]
    given = log_probabilities(scores).gather(1, follows[0, :, None])  # [n, 1]
    return given.sum().item()


def greedy_continuation(
    model: PreTrainedModel, prompt_ids: torch.Tensor, length: int
) -> Continuation:
    """Return ``length`` greedy tokens, EOS or not, and their joint log-probability."""
    _check_search(prompt_ids, length)
    mask, step = torch.ones_like(prompt_ids), prefill(model, as_inputs(prompt_ids))
    chosen, total = [], 0.0
    while True:
        token = greedy(step.logits)  # [1]
        chosen.append(int(token))
        total += float(log_probabilities(step.logits[0])[token])
        if len(chosen) == length:
            return Continuation(tuple(chosen), total)
        mask = append_one(mask)
        step = decode_step(model, token[:, None], step.cache, mask)


def most_probable_continuation(
    model: PreTrainedModel, prompt_ids: torch.Tensor, length: int
) -> Best:
    """Return the most probable continuation of ``length`` tokens among all V ** length of them.

    ``prompt_ids`` is [1, L]. The search is exact (branch and bound). Each further token can only
    lower a probability, so a beginning that is already no more probable than the continuations
    found cannot win, and in order of probability neither can any that comes after it. Each
    beginning is one decode step on a copy of the cache, a batch of one: no rounding of a batch.
    The first path is greedy's. Meant for 2 or 3 tokens: the tree grows quickly.
    """
    _check_search(prompt_ids, length)
    if model.config.vocab_size < 2:
        raise ValueError(f"a choice needs 2 tokens, not a vocabulary of {model.config.vocab_size}")
    step, mask = prefill(model, as_inputs(prompt_ids)), torch.ones_like(prompt_ids)
    search = _Search(model, length)
    expanded = search.explore(step, mask, Continuation((), 0.0))
    best, runner_up = search.found
    return Best(best, runner_up, expanded)


# --- the search -----------------------------------------------------------------------------------


class _Search:
    """The two most probable continuations found so far, and how they are improved on."""

    def __init__(self, model: PreTrainedModel, length: int) -> None:
        self.model = model
        self.length = length
        self.found: list[Continuation] = []  # best first, two at most

    def explore(self, step: Forward, mask: torch.Tensor, beginning: Continuation) -> int:
        """Try the tokens after ``beginning`` in order; return how many could still win."""
        ordered = log_probabilities(step.logits[0]).sort(descending=True, stable=True)  # [V]
        pairs = zip(ordered.indices.tolist(), ordered.values.tolist(), strict=True)
        for tried, (token_id, log_p) in enumerate(pairs):
            longer = Continuation(
                (*beginning.token_ids, token_id), beginning.log_probability + log_p
            )
            if self.cannot_win(longer):
                return tried
            if len(longer.token_ids) == self.length:
                self.found = sorted([*self.found, longer], key=_falling)[:2]
            else:
                self.descend(step, mask, longer)
        return len(ordered.values)

    def descend(self, step: Forward, mask: torch.Tensor, beginning: Continuation) -> None:
        """Run the last token of ``beginning`` on a copy of the cache, and go on from there."""
        token_ids = mask.new_tensor([[beginning.token_ids[-1]]])  # [1, 1]
        mask = append_one(mask)
        step = decode_step(self.model, token_ids, copy.deepcopy(step.cache), mask)
        self.explore(step, mask, beginning)

    def cannot_win(self, beginning: Continuation) -> bool:
        """Return whether two continuations are known that are at least as probable."""
        if len(self.found) < 2:
            return False
        return beginning.log_probability <= self.found[-1].log_probability


def _falling(continuation: Continuation) -> float:
    return -continuation.log_probability


def log_probabilities(logits: torch.Tensor) -> torch.Tensor:
    """Return the log-probabilities that logits, [..., V], stand for, in fp32."""
    log_p = logits.float().log_softmax(dim=-1)
    if log_p.isnan().any():
        raise ValueError(
            "the logits give no probabilities (NaN, or infinite): the weights are damaged, or the "
            "dtype is too small for this model; try float32"
        )
    return log_p


def as_inputs(input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return ids, [B, L], with a mask of ones, as ``prefill`` takes them."""
    return {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids)}


# --- guards ---------------------------------------------------------------------------------------


def _check_search(prompt_ids: torch.Tensor, length: int) -> None:
    check_prompt_ids(prompt_ids)
    check_sizes(1, length=length)


def check_prompt_ids(prompt_ids: torch.Tensor) -> None:
    """Raise unless these are the ids of one prompt, [1, L]."""
    check_id_tensor(prompt_ids)
    if prompt_ids.dim() != 2 or len(prompt_ids) != 1 or not prompt_ids.numel():
        shape = list(prompt_ids.shape)
        raise ValueError(f"one prompt at a time, [1, L] with L ≥ 1, not {shape}")


def _ids(model: PreTrainedModel, continuation: Iterable[int]) -> list[int]:
    """Return the ids of a continuation, or raise; a set is none, for it has no order."""
    ids = check_ids_in_a_row("a continuation", continuation)
    if not ids:
        raise ValueError("a continuation needs at least one token, not []")
    check_ids(min(ids), max(ids), model.config)
    return ids
