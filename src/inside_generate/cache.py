"""Bytes of the KV cache, of logits and of weights: predicted from a config, measured on tensors.

Predictions need a config and no model; they are exact for dense attention in which each layer keeps
keys and values of every position (Qwen2, Llama and their kin).
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from transformers import AutoModelForCausalLM, Cache, PretrainedConfig, PreTrainedModel

from inside_generate.guards import check_has, check_sizes
from inside_generate.loop import cached_keys_and_values, number_of_cached_layers

CONFIG = "the config of a language model with dense attention is wanted here, such as model.config"


def head_dim(config: PretrainedConfig) -> int:
    """Return the size of one head: the config's own, else hidden size / query heads."""
    explicit = getattr(config, "head_dim", None)
    return explicit or config.hidden_size // config.num_attention_heads


def kv_heads(config: PretrainedConfig) -> int:
    """Return the number of KV heads; a config that names none has one for each query head."""
    return getattr(config, "num_key_value_heads", None) or config.num_attention_heads


def kv_head_of(config: PretrainedConfig, query_head: int) -> int:
    """Return the KV head that a query head reads: neighbours share one (Ainslie et al. 2023).

    Raises ``ValueError`` where the query heads are not shared out evenly.
    """
    heads = config.num_attention_heads
    check_sizes(query_head=query_head)
    if query_head >= heads:
        raise ValueError(f"query_head must be one of 0 to {heads - 1}, not {query_head}")
    return query_head // _share(heads, kv_heads(config))


def with_kv_heads(config: PretrainedConfig, number: int) -> PretrainedConfig:
    """Return a copy of ``config`` with ``number`` KV heads: as many as query heads is MHA, 1 MQA.

    Raises ``ValueError`` where the query heads cannot be shared out evenly.
    """
    check_sizes(1, number=number)
    _share(config.num_attention_heads, number)
    changed = copy.deepcopy(config)
    changed.num_key_value_heads = number
    return changed


def kv_reads(prompt_tokens: int, generated_tokens: int) -> int:
    """Return how many cached columns the decode steps of one answer read, all steps together.

    Decode step n reads L + n columns, its own token's included, and T tokens take T − 1 steps:
    (T − 1)·L + T·(T − 1)/2. A column is a key and a value, in every layer and KV head.
    """
    check_sizes(prompt_tokens=prompt_tokens, generated_tokens=generated_tokens)
    steps = max(generated_tokens - 1, 0)
    return steps * prompt_tokens + steps * (steps + 1) // 2


def kv_cache_bytes(
    config: PretrainedConfig, length: int, batch: int = 1, dtype: torch.dtype = torch.bfloat16
) -> int:
    """Return the bytes of keys and values for ``batch`` rows of ``length`` cached tokens.

    2 (keys and values) · layers · KV heads · head_dim · B · L · bytes per number.
    """
    check_sizes(length=length, batch=batch)
    check_has(config, "num_hidden_layers", "num_attention_heads", "hidden_size", hint=CONFIG)
    numbers = 2 * config.num_hidden_layers * kv_heads(config) * head_dim(config)
    return numbers * _bytes_each(dtype) * batch * length


def logits_bytes(
    config: PretrainedConfig, length: int, batch: int = 1, dtype: torch.dtype = torch.bfloat16
) -> int:
    """Return the bytes of logits for ``length`` positions: B · L · V · bytes per number."""
    check_sizes(length=length, batch=batch)
    check_has(config, "vocab_size", hint=CONFIG)
    return batch * length * config.vocab_size * _bytes_each(dtype)


def weight_bytes(
    model_or_config: PreTrainedModel | PretrainedConfig, dtype: torch.dtype = torch.bfloat16
) -> int:
    """Return the bytes of all weights in ``dtype``; a tied matrix is counted once."""
    return parameter_count(model_or_config) * _bytes_each(dtype)


def parameter_count(model_or_config: PreTrainedModel | PretrainedConfig) -> int:
    """Return how many numbers the weights hold; a tied matrix is counted once.

    From a config the model is built on the ``meta`` device: shapes without memory.
    """
    model: Any = model_or_config
    check_has(
        model, "to_dict" if isinstance(model, PretrainedConfig) else "parameters", hint=CONFIG
    )
    if isinstance(model_or_config, PretrainedConfig):
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(model_or_config)
            model.tie_weights()
    return sum(parameter.numel() for parameter in model.parameters())


def measured_kv_bytes(cache: Cache) -> int:
    """Return the bytes of the tensors that a cache really holds, all layers together."""
    tensors = (
        tensor
        for layer in range(number_of_cached_layers(cache))
        for tensor in cached_keys_and_values(cache, layer)
        if tensor is not None  # a layer that has met no token yet
    )
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _bytes_each(dtype: torch.dtype) -> int:
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"dtype must be torch's, such as torch.bfloat16, not {dtype!r}")
    return dtype.itemsize


def _share(query_heads: int, number: int) -> int:
    """Return how many query heads share one of ``number`` KV heads, or raise."""
    if number < 1 or query_heads % number:
        raise ValueError(
            f"{query_heads} query heads cannot be shared out evenly to {number} KV heads"
        )
    return query_heads // number
