"""Several prompts at once: one prefill and one decode step for all rows of a batch.

It knows how each row gets its own end, and how the records of a batch become one run a prompt. How
rows become one tensor is in ``padding.py``; the forward passes are ``loop``'s.

Shapes: ``B`` rows, one a prompt; ``L`` columns, as many as the longest prompt has tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from inside_generate import memory
from inside_generate.chat import Messages
from inside_generate.checks import check_prompt, ids_and_mask
from inside_generate.loop import append_one, decode_step, prefill, record_step
from inside_generate.padding import encode_batch, unpadded
from inside_generate.sampling import Sampler, SeesTokens, choose, greedy
from inside_generate.stopping import EosTokenIds, check_limit, resolve_eos_token_ids
from inside_generate.timing import Clock, device_clock
from inside_generate.trace import Step, Trace, finished

__all__ = ["encode_batch", "generate_batch", "stream_batch"]


def stream_batch(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    inputs: Mapping[str, torch.Tensor],
    *,
    max_new_tokens: int = 64,
    sampler: Sampler | SeesTokens = greedy,
    eos_token_ids: EosTokenIds = None,
    clock: Clock | None = None,
) -> Iterator[dict[int, Step]]:
    """Yield for each forward the records of the rows that are still running, by row number.

    A row that has ended stays in the batch until all have ended. It is fed something still, no
    matter what, since no other row looks at it, and what comes out of it is dropped. The seconds
    are the batch's, the same for each row.
    """
    stops = resolve_eos_token_ids(eos_token_ids, model, tokenizer)
    token_ids, mask = ids_and_mask(inputs, model)  # [B, L] each
    check_prompt(token_ids, mask, model.config)
    check_limit(max_new_tokens, (1, mask.shape[1]), model.config)  # the longest row has no padding
    clock = clock or device_clock(model.device)
    tokens = unpadded(inputs)  # of each row so far
    running = list(range(len(tokens)))  # the rows that have not ended
    start = clock()
    forward = prefill(model, inputs)
    for number in range(1, max_new_tokens + 1):
        chosen = choose(sampler, forward.logits, tokens)  # [B]
        ids = chosen.tolist()
        seconds = clock() - start
        yield {
            row: record_step(tokenizer, forward, row, mask[row], number, ids[row], seconds)
            for row in running
        }
        running = [row for row in running if ids[row] not in stops]
        if not running or number == max_new_tokens:
            return
        start = clock()
        for row in running:
            tokens[row] = torch.cat([tokens[row], chosen[row : row + 1]])
        mask = append_one(mask)  # [B, L + number]
        forward = decode_step(model, chosen[:, None], forward.cache, mask)


def generate_batch(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Messages],
    *,
    max_new_tokens: int = 64,
    sampler: Sampler | SeesTokens = greedy,
    eos_token_ids: EosTokenIds = None,
    clock: Clock | None = None,
) -> list[Trace]:
    """Answer several conversations together and return one run a prompt, in their order.

    Each is the run that ``generate`` gives the prompt alone, up to rounding: lengths count the
    row's own tokens, and padding is left out. Two things are the batch's: a forward's seconds,
    which each row waits for in full, and the peak of memory.
    """
    stops = resolve_eos_token_ids(eos_token_ids, model, tokenizer)
    inputs = encode_batch(tokenizer, prompts, model.device)
    memory.reset_peak(model.device)
    rows: list[list[Step]] = [[] for _ in prompts]
    for records in stream_batch(
        model,
        tokenizer,
        inputs,
        max_new_tokens=max_new_tokens,
        sampler=sampler,
        eos_token_ids=stops,
        clock=clock,
    ):
        for row, step in records.items():
            rows[row].append(step)
    return [
        finished(model, tokenizer, prompt, prompt_ids, steps, stops, max_new_tokens)
        for prompt, prompt_ids, steps in zip(prompts, unpadded(inputs), rows, strict=True)
    ]
