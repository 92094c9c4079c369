"""How many floating-point operations a forward pass takes, predicted from a config.

A product of an [n, k] and a [k, m] matrix counts as 2·n·k·m: a multiplication and an addition for
each pair of numbers. Exact, to the last one, for matrix products of Qwen2, Llama and their kin
(gated MLP, dense attention); everything else (norms, softmax, biases) is too little to count.
"""

from __future__ import annotations

from transformers import PretrainedConfig

from inside_generate.cache import CONFIG, head_dim, kv_heads
from inside_generate.guards import check_has, check_sizes


def layer_matrix_numbers(config: PretrainedConfig) -> int:
    """Return how many numbers one layer's weight matrices hold: Q, K, V, output, and the MLP's."""
    check_has(config, "num_attention_heads", "hidden_size", "intermediate_size", hint=CONFIG)
    query_width = config.num_attention_heads * head_dim(config)
    kv_width = kv_heads(config) * head_dim(config)
    attention = config.hidden_size * (2 * query_width + 2 * kv_width)
    return attention + 3 * config.hidden_size * config.intermediate_size


def matrix_flops(config: PretrainedConfig, tokens: int, logits_rows: int = 1) -> int:
    """Return the work with weights: all layers for ``tokens``, output matrix for some rows."""
    check_sizes(tokens=tokens, logits_rows=logits_rows)
    layers = 2 * tokens * config.num_hidden_layers * layer_matrix_numbers(config)
    return layers + 2 * logits_rows * config.hidden_size * config.vocab_size


def attention_flops(config: PretrainedConfig, queries: int, keys: int) -> int:
    """Return the work between tokens: each query with each key, then each weight with each value.

    Pairs that the causal mask hides are counted too. A kernel may skip them: up to a half.
    """
    check_sizes(queries=queries, keys=keys)
    width = config.num_attention_heads * head_dim(config)
    return 4 * config.num_hidden_layers * width * queries * keys


def prefill_flops(
    config: PretrainedConfig, length: int, logits_rows: int = 1, causal: bool = False
) -> int:
    """Return the work of a prompt of ``length`` tokens, with logits of ``logits_rows`` of them.

    ``causal`` leaves out the pairs that the mask hides, as a kernel may.
    """
    check_sizes(length=length, logits_rows=logits_rows)
    if logits_rows > length:
        raise ValueError(f"{length} tokens have no {logits_rows} rows of logits")
    between_tokens = attention_flops(config, length, length)
    if causal:  # L · (L + 1) / 2 pairs of the L · L; each counts the same
        between_tokens = between_tokens * (length + 1) // (2 * length)
    return matrix_flops(config, length, logits_rows) + between_tokens


def decode_flops(config: PretrainedConfig, context: int) -> int:
    """Return the work of one decode step whose token sees ``context`` keys, its own included."""
    check_sizes(1, context=context)
    return matrix_flops(config, 1) + attention_flops(config, 1, context)
