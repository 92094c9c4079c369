"""The guards at the doors of ``prefill`` and ``decode_step``.

The library takes almost anything here and answers with numbers that look right. Each guard names
the value that was wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import Cache, PretrainedConfig, PreTrainedModel

from inside_generate.guards import check_has

MODEL = "the model is wanted here; load() returns the tokenizer first, then the model"


def ids_and_mask(
    inputs: Mapping[str, torch.Tensor], model: PreTrainedModel
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``input_ids`` and ``attention_mask`` of a prompt, or raise where one is missing.

    The ids have to be where the model is.
    """
    check_has(model, "config", "device", hint=MODEL)
    names = ("input_ids", "attention_mask")
    if not isinstance(inputs, Mapping) or not all(name in inputs for name in names):
        found = sorted(inputs) if isinstance(inputs, Mapping) else type(inputs).__name__
        raise ValueError(
            f"inputs must hold input_ids and attention_mask, as encode() returns them, not {found}"
        )
    check_id_tensor(inputs["input_ids"])
    if inputs["input_ids"].device != model.device:
        raise ValueError(
            f"input_ids are on {inputs['input_ids'].device} and the model is on {model.device}: "
            "encode(tokenizer, messages, model.device) puts them there"
        )
    return inputs["input_ids"], inputs["attention_mask"]


def check_is_cache(cache: Cache) -> None:
    """Raise unless this is a cache of the library's present kind, all of keys and values."""
    if not isinstance(cache, Cache):
        raise ValueError(f"cache must be a Cache, as prefill() returns one, not {type(cache)}")
    if not all(hasattr(layer, "keys") for layer in getattr(cache, "layers", [None])):
        raise ValueError(
            f"this {type(cache).__name__} keeps something else than keys and values, as "
            "state-space models do: choose a decoder model with attention in every layer"
        )


def check_prompt(
    input_ids: torch.Tensor, attention_mask: torch.Tensor, config: PretrainedConfig
) -> None:
    """Raise unless ids and mask are a prompt, both [B, L], padded on the left if at all."""
    check_id_tensor(input_ids)
    if input_ids.dim() != 2 or 0 in input_ids.shape:
        raise ValueError(
            f"input_ids must be [B, L] with L ≥ 1 and B ≥ 1, not {list(input_ids.shape)}"
        )
    if _shape(attention_mask) != list(input_ids.shape):
        raise ValueError(
            f"attention_mask must be {list(input_ids.shape)} like input_ids, "
            f"not {_shape(attention_mask)}"
        )
    _check_mask_values(attention_mask)
    _check_ids(input_ids, config)
    check_window(input_ids.shape[1], config)


def check_decode(
    token_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    cached: int,
    cached_layers: int,
    form: tuple[Any, ...] | None,
    model: PreTrainedModel,
) -> None:
    """Raise unless this is one more token a row, [B, 1], for a cache of ``cached`` tokens.

    ``form`` is B, H_kv, D and dtype of what the cache holds, ``None`` for one that is new. A cache
    of another form would have grown in its first layer before torch raises.
    """
    config = model.config
    check_id_tensor(token_ids)
    if token_ids.dim() != 2 or token_ids.shape[1] != 1:
        raise ValueError(
            f"a decode step takes one token a row, [B, 1], not {list(token_ids.shape)}: "
            "the tokens before it are in the cache already"
        )
    _check_layers(cached_layers, config)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    step = (len(token_ids), heads, size, model.dtype)
    # Of these kinds the config does not say plainly what is kept: MLA, and Falcon's one KV head.
    plain = not (getattr(config, "kv_lora_rank", None) or getattr(config, "multi_query", False))
    if form is not None and form != (step if plain else (step[0], *form[1:3], step[3])):
        raise ValueError(
            f"the cache holds rows, KV heads, head size and dtype {list(form or ())}, and the step "
            f"has {list(step)}: it belongs to another batch or model"
        )
    expected = [token_ids.shape[0], cached + 1]
    if _shape(attention_mask) != expected:
        raise ValueError(
            f"attention_mask must be {expected}, not {_shape(attention_mask)}: "
            f"the cache holds {cached} tokens and one more comes in"
        )
    if not bool((attention_mask[:, -1] == 1).all()):
        raise ValueError("the mask hides the new token: its last column must be 1")
    _check_mask_values(attention_mask)
    _check_ids(token_ids, config)
    check_window(cached + 1, config)


def check_empty_cache(held: int, layers: int, config: PretrainedConfig) -> None:
    """Raise unless the cache to fill is empty and made for a model of this depth."""
    if layers:  # one that was made without a config makes its layers as they come
        _check_layers(layers, config)
    if held:
        raise ValueError(
            f"the cache holds {held} tokens already: a prefill starts with an empty one, and the "
            "tokens after it go through decode_step, one at a time"
        )


def check_rows(rows: int, form: tuple[Any, ...] | None, dtype: torch.dtype) -> None:
    """Raise where a cache has its tensors already, and for another batch or dtype."""
    if form is not None and (form[0], form[3]) != (rows, dtype):
        raise ValueError(
            f"the cache was made for {form[0]} rows of {form[3]}, and the prompt has {rows} of "
            f"{dtype}: make another one"
        )


def _check_layers(layers: int, config: PretrainedConfig) -> None:
    if layers != config.num_hidden_layers:
        raise ValueError(
            f"the cache has {layers} layers and the model {config.num_hidden_layers}: "
            "it belongs to another model"
        )


def check_room(needed: int, room: int | None) -> None:
    """Raise where a cache of fixed size has fewer slots than the tokens need."""
    if room is not None and needed > room:
        raise ValueError(
            f"the cache has {room} slots and {needed} tokens need one each: prompt and answer "
            "together need as many as they have tokens, less the last, which is never fed in"
        )


def _shape(tensor: object) -> list[int] | str:
    """Return the shape, or what it is where it is no tensor."""
    return list(tensor.shape) if isinstance(tensor, torch.Tensor) else type(tensor).__name__


def _check_mask_values(attention_mask: torch.Tensor) -> None:
    """Raise unless each row is zeros (padding), then ones, and ends in a one."""
    real = attention_mask == 1
    if not bool((real | (attention_mask == 0)).all()):
        raise ValueError("an attention mask holds 1 for a real token and 0 for padding only")
    if not bool(real[:, -1].all()):
        raise ValueError(
            "a row ends in padding, and the last position scores the next token: pad on the left"
        )
    if bool((real[:, :-1] & ~real[:, 1:]).any()):
        raise ValueError("the mask has a gap: padding stands on the left of a row only")


def _check_ids(input_ids: torch.Tensor, config: PretrainedConfig) -> None:
    check_ids(int(input_ids.min()), int(input_ids.max()), config)


def check_id_tensor(ids: torch.Tensor) -> None:
    """Raise unless these are whole numbers in a tensor, as an embedding takes them."""
    if not isinstance(ids, torch.Tensor) or ids.dtype not in (torch.int64, torch.int32):
        kind = getattr(ids, "dtype", type(ids).__name__)
        raise ValueError(f"token ids must be a tensor of int64 or int32, not {kind}")


def check_ids(lowest: int, highest: int, config: PretrainedConfig) -> None:
    """Raise unless both, and all ids between them, have a row in the embedding."""
    if lowest < 0 or highest >= config.vocab_size:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(
            f"token id {wrong} is not among the model's 0 to {config.vocab_size - 1}: "
            "do tokenizer and model belong together?"
        )


def check_window(length: int, config: PretrainedConfig) -> None:
    """Raise where the model has fewer positions than ``length`` tokens need."""
    window = getattr(config, "max_position_embeddings", None)
    if window is not None and length > window:
        raise ValueError(
            f"{length} tokens are more than the model's {window} positions "
            "(max_position_embeddings)"
        )
