"""The guards at the doors of ``prefill`` and ``decode_step``.

The library takes almost anything here and answers with numbers that look right. Each guard names
the value that was wrong.
"""

from __future__ import annotations

import torch
from transformers import PretrainedConfig


def check_prompt(
    input_ids: torch.Tensor, attention_mask: torch.Tensor, config: PretrainedConfig
) -> None:
    """Raise unless ids and mask are a prompt, both [B, L], padded on the left if at all."""
    check_id_tensor(input_ids)
    if input_ids.dim() != 2 or 0 in input_ids.shape:
        raise ValueError(
            f"input_ids must be [B, L] with L ≥ 1 and B ≥ 1, not {list(input_ids.shape)}"
        )
    if attention_mask.shape != input_ids.shape:
        raise ValueError(
            f"attention_mask must be {list(input_ids.shape)} like input_ids, "
            f"not {list(attention_mask.shape)}"
        )
    _check_mask_values(attention_mask)
    _check_ids(input_ids, config)
    check_window(input_ids.shape[1], config)


def check_decode(
    token_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    cached: int,
    cached_layers: int,
    rows_and_heads: tuple[int, ...] | None,
    config: PretrainedConfig,
) -> None:
    """Raise unless this is one more token a row, [B, 1], for a cache of ``cached`` tokens.

    ``rows_and_heads`` is [B, H_kv] of what the cache holds, ``None`` for one that is new.
    """
    check_id_tensor(token_ids)
    if token_ids.dim() != 2 or token_ids.shape[1] != 1:
        raise ValueError(
            f"a decode step takes one token a row, [B, 1], not {list(token_ids.shape)}: "
            "the tokens before it are in the cache already"
        )
    if cached_layers != config.num_hidden_layers:
        raise ValueError(
            f"the cache has {cached_layers} layers and the model {config.num_hidden_layers}: "
            "it belongs to another model"
        )
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    if rows_and_heads not in (None, (len(token_ids), heads)):
        raise ValueError(
            f"the cache holds rows and KV heads {list(rows_and_heads or ())}, and the step has "
            f"{[len(token_ids), heads]}: it belongs to another batch or model"
        )
    expected = [token_ids.shape[0], cached + 1]
    if list(attention_mask.shape) != expected:
        raise ValueError(
            f"attention_mask must be {expected}, not {list(attention_mask.shape)}: "
            f"the cache holds {cached} tokens and one more comes in"
        )
    if not bool((attention_mask[:, -1] == 1).all()):
        raise ValueError("the mask hides the new token: its last column must be 1")
    _check_ids(token_ids, config)
    check_window(cached + 1, config)


def check_empty_cache(held: int, room: int | None, length: int) -> None:
    """Raise unless the cache to fill is empty and ``length`` tokens fit into it."""
    if held:
        raise ValueError(
            f"the cache holds {held} tokens already: a prefill starts with an empty one, and the "
            "tokens after it go through decode_step, one at a time"
        )
    check_room(length, room)


def check_room(needed: int, room: int | None) -> None:
    """Raise where a cache of fixed size has fewer slots than the tokens need."""
    if room is not None and needed > room:
        raise ValueError(
            f"the cache has {room} slots and {needed} tokens need one each: make it as long as "
            "prompt and answer together"
        )


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
