"""The loop itself: prefill, decode steps, and the stream of tokens that they make.

Three layers. ``prefill`` and ``decode_step`` take tensors and return logits. ``stream`` chooses
tokens and yields one record each. ``generate`` returns the finished run. This is also the one place
that knows the library's names for what a cache holds; other modules ask the accessors below.

Shapes: ``B`` batch, ``L`` positions, ``V`` vocabulary, ``H_kv`` KV heads, ``D`` head size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import Cache, PreTrainedModel, PreTrainedTokenizerBase

from inside_generate import checks, memory
from inside_generate.chat import Messages, encode
from inside_generate.guards import check_sizes
from inside_generate.sampling import Sampler, SeesTokens, choose, greedy
from inside_generate.stopping import EosTokenIds, check_limit, resolve_eos_token_ids
from inside_generate.timing import Clock, device_clock
from inside_generate.trace import Step, Trace, finished, token_text, top_candidates


@dataclass(frozen=True)
class Forward:
    """What one forward pass leaves behind."""

    logits: torch.Tensor  # [B, V], of the last position: they score the next token
    cache: Cache  # keys and values of every token so far
    full_logits_shape: tuple[int, ...]  # of what the forward returned: [B, positions kept, V]
    all_logits: torch.Tensor | None = None  # [B, L, V] where all positions were asked for


def prefill(
    model: PreTrainedModel,
    inputs: Mapping[str, torch.Tensor],
    keep_all_logits: bool = False,
    cache: Cache | None = None,
) -> Forward:
    """Run the whole prompt through the model once: logits of the last position, and its cache.

    ``inputs`` holds ``input_ids`` and ``attention_mask``, both [B, L], left-padded if at all.
    Only the last row of logits is computed unless ``keep_all_logits`` asks for all L. ``cache`` is
    an empty one to fill, such as a ``StaticCache``; without it the model makes one that grows.
    """
    input_ids, attention_mask = checks.ids_and_mask(inputs, model)
    checks.check_prompt(input_ids, attention_mask, model.config)
    if cache is not None:
        checks.check_empty_cache(cached_length(cache), number_of_cached_layers(cache), model.config)
        checks.check_room(input_ids.shape[1], cache_room(cache))
        checks.check_rows(len(input_ids), _form(cache), model.dtype)
    with torch.inference_mode():  # keeps no graph for a backward pass
        output = model(
            input_ids=input_ids,  # [B, L]
            attention_mask=attention_mask,  # [B, L]
            position_ids=positions(attention_mask),  # [B, L]
            cache=cache,
            use_cache=True,
            logits_to_keep=0 if keep_all_logits else 1,  # 0 means all
        )
    return _forward(output, keep_all_logits)


def decode_step(
    model: PreTrainedModel, token_ids: torch.Tensor, cache: Cache, attention_mask: torch.Tensor
) -> Forward:
    """Run one new token through the model, on top of the cache, which grows by one in place.

    ``token_ids`` is [B, 1]; ``attention_mask`` is [B, cached tokens + 1] and already counts the new
    token. The library takes a mask of any length and is then silently wrong; this raises.
    """
    held, layers = cached_length(cache), number_of_cached_layers(cache)
    checks.check_decode(token_ids, attention_mask, held, layers, _form(cache), model)
    checks.check_room(held + 1, cache_room(cache))
    with torch.inference_mode():
        output = model(
            input_ids=token_ids,  # [B, 1]
            attention_mask=attention_mask,  # [B, cached + 1]
            position_ids=positions(attention_mask)[:, -1:],  # [B, 1]
            cache=cache,
            use_cache=True,
        )
    return _forward(output, keep_all_logits=False)


def stream(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    inputs: Mapping[str, torch.Tensor],
    *,
    max_new_tokens: int = 64,
    sampler: Sampler | SeesTokens = greedy,
    eos_token_ids: EosTokenIds = None,
    keep_all_logits: bool = False,
    clock: Clock | None = None,
) -> Iterator[Step]:
    """Yield one record a token for one prompt ([1, L]): one prefill, then decode steps.

    T tokens cost one prefill and T − 1 decode forwards: the last token picked is never an input.
    """
    tokens, attention_mask = checks.ids_and_mask(inputs, model)  # [1, L] each
    stops = resolve_eos_token_ids(eos_token_ids, model, tokenizer)
    check_limit(max_new_tokens, attention_mask.shape, model.config)
    clock = clock or device_clock(model.device)
    start = clock()
    forward = prefill(model, inputs, keep_all_logits)
    for number in range(1, max_new_tokens + 1):
        token_ids = choose(sampler, forward.logits, tokens)  # [1]
        token_id = int(token_ids)
        seconds = clock() - start
        yield record_step(tokenizer, forward, 0, attention_mask[0], number, token_id, seconds)
        if token_id in stops or number == max_new_tokens:
            return
        start = clock()
        tokens = torch.cat([tokens, token_ids[:, None]], dim=-1)  # [1, L + number]
        attention_mask = append_one(attention_mask)  # the new token becomes visible
        forward = decode_step(model, token_ids[:, None], forward.cache, attention_mask)


def generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    messages: Messages,
    *,
    max_new_tokens: int = 64,
    sampler: Sampler | SeesTokens = greedy,
    eos_token_ids: EosTokenIds = None,
    keep_all_logits: bool = False,
    clock: Clock | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Trace:
    """Answer one conversation and return the run: ids, text, stop reason, a record for each token.

    With the defaults the ids are those of ``model.generate(do_sample=False,
    repetition_penalty=1.0)``. ``eos_token_ids=None`` stops where ``generate()`` would.
    ``on_step`` is called with each record as it is made, outside the times measured.
    """
    stops = resolve_eos_token_ids(eos_token_ids, model, tokenizer)
    inputs = encode(tokenizer, messages, model.device)
    memory.reset_peak(model.device)
    steps = []
    for step in stream(
        model,
        tokenizer,
        inputs,
        max_new_tokens=max_new_tokens,
        sampler=sampler,
        eos_token_ids=stops,
        keep_all_logits=keep_all_logits,
        clock=clock,
    ):
        steps.append(step)
        if on_step is not None:
            on_step(step)
    return finished(
        model, tokenizer, messages, inputs["input_ids"][0], steps, stops, max_new_tokens
    )


def record_step(
    tokenizer: PreTrainedTokenizerBase,
    forward: Forward,
    row: int,
    mask: torch.Tensor,
    number: int,
    token_id: int,
    seconds: float,
) -> Step:
    """Return the record of one row's token; padding in the row's ``mask`` does not count."""
    seen = int(mask.sum())
    return Step(
        number=number,
        phase="prefill" if number == 1 else "decode",
        token_id=token_id,
        text=token_text(tokenizer, token_id),
        top_k=top_candidates(tokenizer, forward.logits[row]),
        input_shape=(1, seen if number == 1 else 1),
        logits_shape=(1, *forward.full_logits_shape[1:]),
        mask_length=seen,
        cache_length=cached_length(forward.cache) - (len(mask) - seen),
        seconds=seconds,
    )


# --- masks, positions, caches ---------------------------------------------------------------------


def positions(attention_mask: torch.Tensor) -> torch.Tensor:
    """Return the position of each column, [B, L]: the first real token of a row is at 0."""
    return (attention_mask.long().cumsum(dim=-1) - 1).clamp(min=0)


def append_one(attention_mask: torch.Tensor) -> torch.Tensor:
    """Return the mask with one more visible column: [B, n] → [B, n + 1], same dtype."""
    return torch.cat([attention_mask, attention_mask.new_ones(len(attention_mask), 1)], dim=-1)


def cached_length(cache: Cache) -> int:
    """Return how many tokens the cache holds."""
    checks.check_is_cache(cache)
    return int(cache.get_seq_length())


def cached_keys_and_values(cache: Cache, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys and values of one layer, each [B, H_kv, L, D]."""
    return cache.layers[layer].keys, cache.layers[layer].values


def number_of_cached_layers(cache: Cache) -> int:
    """Return how many layers keep keys and values."""
    return len(cache.layers)


def drop_last(cache: Cache, tokens: int = 1) -> None:
    """Forget the last ``tokens`` tokens, in place."""
    check_sizes(1, tokens=tokens)
    if tokens > cached_length(cache):
        raise ValueError(f"the cache holds {cached_length(cache)} tokens, {tokens} cannot go")
    cache.crop(-tokens)  # the library takes negative counts only


def replace_cached(cache: Cache, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
    """Put other keys and values, each [B, H_kv, L, D], into one layer, in place."""
    cache.layers[layer].keys, cache.layers[layer].values = keys, values


def cache_room(cache: Cache) -> int | None:
    """Return how many tokens fit into the cache; ``None`` for one that grows."""
    layers = zip(cache.layers, cache.is_sliding, strict=True)
    rooms = (layer.get_max_length() for layer, forgets in layers if not forgets)
    return min((room for room in rooms if room >= 0), default=None)  # −1 is one that grows


def _form(cache: Cache) -> tuple[Any, ...] | None:
    """Return B, H_kv, D and dtype of what the cache holds; ``None`` where it holds nothing yet."""
    keys = cache.layers[0].keys if cache.layers else None
    return None if keys is None else (*keys.shape[:2], keys.shape[3], keys.dtype)


def _forward(output: Any, keep_all_logits: bool) -> Forward:
    return Forward(
        logits=output.logits[:, -1],  # [B, positions, V] → [B, V]
        cache=output.cache,
        full_logits_shape=tuple(output.logits.shape),
        all_logits=output.logits if keep_all_logits else None,
    )
