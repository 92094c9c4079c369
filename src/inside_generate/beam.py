"""Beam search: keep the best few beginnings, and go on with them side by side.

What it knows: how beginnings are compared, kept and ended, by the library's rule. What it leaves to
others: the forwards (``loop.py``) and log-probabilities (``joint.py``).

The rule. The beginnings are called *beams*. They are equally long, and each step lengthens each of
them by every token. The results are looked at in order, most probable first: the first ``beams``
that do not end go on; those that end in EOS are finished if they are among the first ``beams``. A
finished one's score is its log-probability divided by its number of tokens to the power
``length_penalty``; the best ``beams`` are kept. The search ends at the limit, or when ``beams`` are
finished and the best one going on, scored as if it ended now, is no better than the worst of them.
That is the library's with ``early_stopping=False``. It is not exact: what is dropped never returns.
"""

from __future__ import annotations

import torch
from transformers import Cache, PreTrainedModel

from inside_generate.guards import check_numbers, check_sizes
from inside_generate.joint import Continuation, as_inputs, check_prompt_ids, log_probabilities
from inside_generate.loop import (
    cached_keys_and_values,
    decode_step,
    number_of_cached_layers,
    prefill,
    replace_cached,
)
from inside_generate.stopping import EosTokenIds, as_id_set, check_limit


def beam_search(
    model: PreTrainedModel,
    prompt_ids: torch.Tensor,
    beams: int,
    max_new_tokens: int,
    *,
    eos_token_ids: EosTokenIds = (),
    length_penalty: float = 1.0,
) -> list[Continuation]:
    """Return the continuations that beam search ends with, best score first, ``beams`` at most.

    ``prompt_ids`` is [1, L]. One prefill of the prompt, then decode steps of a batch of the beams.
    Without ``eos_token_ids`` nothing ends before the limit, and the score decides as the joint
    log-probability does. EOS counts as a token. One beam is greedy decoding.
    """
    check_prompt_ids(prompt_ids)
    check_sizes(1, beams=beams)
    check_limit(max_new_tokens, tuple(prompt_ids.shape), model.config)
    (length_penalty,) = check_numbers("length_penalty", [length_penalty], low=-10, high=10)
    stops = as_id_set(eos_token_ids)

    def score(continuation: Continuation) -> float:
        return continuation.log_probability / len(continuation.token_ids) ** length_penalty

    running, finished = [Continuation((), 0.0)], list[Continuation]()
    step = prefill(model, as_inputs(prompt_ids))
    for number in range(1, max_new_tokens + 1):
        rows, candidates = _lengthened(running, step.logits, beams * (1 + len(stops)))
        ends = [number == max_new_tokens or c.token_ids[-1] in stops for c in candidates]
        finished += [c for c, end in zip(candidates[:beams], ends, strict=False) if end]
        finished = sorted(finished, key=score, reverse=True)[:beams]
        going_on = [place for place, end in enumerate(ends) if not end][:beams]
        running = [candidates[place] for place in going_on]
        if not running or (len(finished) == beams and score(running[0]) <= score(finished[-1])):
            break
        reorder_rows(step.cache, [rows[place] for place in going_on])
        last = prompt_ids.new_tensor([[beam.token_ids[-1]] for beam in running])  # [beams, 1]
        mask = last.new_ones(len(running), prompt_ids.shape[1] + number)
        step = decode_step(model, last, step.cache, mask)
    return finished


def reorder_rows(cache: Cache, rows: list[int]) -> None:
    """Let row i of the cache be what row ``rows[i]`` was, in place: [B, …] → [len(rows), …].

    A row may be taken more than once, as when several beams go on from one, or not at all.
    """
    for layer in range(number_of_cached_layers(cache)):
        keys, values = cached_keys_and_values(cache, layer)  # [B, H_kv, L, D] each
        replace_cached(cache, layer, keys[rows], values[rows])


def _lengthened(
    running: list[Continuation], logits: torch.Tensor, count: int
) -> tuple[list[int], list[Continuation]]:
    """Return the ``count`` best of all beams with one more token, and which beam each is from."""
    so_far = logits.new_tensor([beam.log_probability for beam in running], dtype=torch.float32)
    total = so_far[:, None] + log_probabilities(logits)  # [beams, V]
    best = total.flatten().topk(min(count, total.numel()))
    rows = (best.indices // total.shape[1]).tolist()
    token_ids = (best.indices % total.shape[1]).tolist()
    longer = [
        Continuation((*running[row].token_ids, token_id), log_p)
        for row, token_id, log_p in zip(rows, token_ids, best.values.tolist(), strict=True)
    ]
    return rows, longer
