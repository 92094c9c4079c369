"""A cache as full as one likes, made without a prompt: for timing a step deep in a conversation."""

from __future__ import annotations

import torch
from transformers import Cache, PreTrainedModel

from inside_generate.checks import check_window
from inside_generate.guards import check_sizes
from inside_generate.loop import (
    cached_keys_and_values,
    cached_length,
    number_of_cached_layers,
    prefill,
    replace_cached,
)


def synthetic_cache(model: PreTrainedModel, length: int, batch: int = 1) -> Cache:
    """Return a cache of ``length`` tokens that no prompt has made: random keys and values.

    For timing, which does not depend on what they say. Shapes, dtype and device are those of a
    real prefill of one token. ``ValueError`` for a model whose cache forgets (sliding window).
    """
    check_sizes(1, length=length, batch=batch)
    check_window(length, model.config)
    ids = torch.zeros(batch, 1, dtype=torch.long, device=model.device)
    cache = prefill(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}).cache
    for layer in range(number_of_cached_layers(cache)):
        keys, _ = cached_keys_and_values(cache, layer)
        longer = keys.expand(-1, -1, length, -1)  # [B, H_kv, 1, D] → [B, H_kv, length, D]
        replace_cached(cache, layer, torch.randn_like(longer), torch.randn_like(longer))
    if cached_length(cache) != length:
        raise ValueError("this model's cache does not keep every token: it has a sliding window")
    return cache
