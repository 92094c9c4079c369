"""How many bytes one forward has to read: of the weights, and of the cache.

Counted on a model's real tensors, or predicted from a config without weights. What is left out:
activations, which are small in a decode step, and the new token's keys and values being written.
"""

from __future__ import annotations

import torch
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from inside_generate.cache import CONFIG, kv_cache_bytes
from inside_generate.guards import check_has, check_sizes

MODEL = "a model with embeddings and an output matrix is wanted here"


def step_weight_bytes(model: PreTrainedModel, tokens: int = 1) -> int:
    """Return the bytes of weights that one forward over ``tokens`` inputs reads, as stored.

    All of them, each once; but of an embedding table that is not the output matrix as well, one
    row for each input (the rows of a batch have an input each).
    """
    check_sizes(1, tokens=tokens)
    check_has(model, "get_input_embeddings", "get_output_embeddings", hint=MODEL)
    read = sum(tensor.nbytes for tensor in _stored(model))
    table: torch.Tensor = model.get_input_embeddings().weight
    if table is getattr(model.get_output_embeddings(), "weight", None):
        return read  # tied: the output matrix is read in full anyway
    row = table.nbytes // len(table)
    return read - table.nbytes + min(tokens, len(table)) * row


def step_bytes(model: PreTrainedModel, context: int, batch: int = 1) -> int:
    """Return the bytes that one decode step reads: weights once, keys and values for each row.

    Each row's token sees ``context`` positions, its own included.
    """
    check_sizes(1, batch=batch)
    cached = kv_cache_bytes(model.config, context, batch, model.dtype)
    return step_weight_bytes(model, batch) + cached


def step_bytes_of(
    config: PretrainedConfig,
    context: int,
    batch: int = 1,
    dtype: torch.dtype = torch.bfloat16,
) -> int:
    """Return what ``step_bytes`` says of a model with this config, without its weights."""
    check_sizes(1, batch=batch)
    cached = kv_cache_bytes(config, context, batch, dtype)
    return step_weight_bytes(shapes_only(config, dtype), batch) + cached


def prefill_bytes(model: PreTrainedModel, length: int, batch: int = 1) -> int:
    """Return the bytes that a prefill moves: weights once, keys and values as they are written."""
    check_sizes(1, length=length, batch=batch)
    cached = kv_cache_bytes(model.config, length, batch, model.dtype)
    return step_weight_bytes(model, batch * length) + cached


def shapes_only(config: PretrainedConfig, dtype: torch.dtype = torch.bfloat16) -> PreTrainedModel:
    """Return the model that the config describes, on the ``meta`` device: without memory."""
    check_has(config, "to_dict", "num_hidden_layers", hint=CONFIG)
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)
    model.tie_weights()
    return model


def _stored(model: PreTrainedModel) -> list[torch.Tensor]:
    """Return what a checkpoint of the model holds, a tied matrix once.

    Some models whose weights were rounded to fewer bits keep them as buffers.
    """
    saved = model.state_dict().keys()
    buffers = [buffer for name, buffer in model.named_buffers() if name in saved]
    return [*model.parameters(), *buffers]
