"""How prompts of different length become one tensor: filled up on the left, with a mask.

It knows ids and lengths. The model is left to ``batch.py``.

Shapes: ``B`` rows, one a prompt; ``L`` columns, as many as the longest prompt has tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.nn.functional import pad
from transformers import BatchEncoding, PreTrainedTokenizerBase

from inside_generate.chat import Messages, encode
from inside_generate.errors import shown
from inside_generate.guards import check_sizes


def encode_batch(
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Messages],
    device: torch.device | str | None = None,
) -> BatchEncoding:
    """Render and tokenize each prompt: ``input_ids`` and ``attention_mask``, both [B, L].

    Behind its padding, each row has exactly the ids that ``encode`` gives the prompt alone.
    """
    check_prompts(prompts)
    rows = [encode(tokenizer, prompt, device)["input_ids"][0] for prompt in prompts]
    return pad_left(rows, filler_id(tokenizer))


def pad_left(rows: Sequence[torch.Tensor], pad_id: int) -> BatchEncoding:
    """Return rows of ids as ``input_ids`` and ``attention_mask``, both [B, L].

    The mask is made from the lengths: a prompt may hold the padding's id as well.
    """
    check_sizes(pad_id=pad_id)
    if not rows or not all(isinstance(row, torch.Tensor) and row.dim() == 1 for row in rows):
        raise ValueError(f"rows must be one tensor of ids a prompt, not {shown(rows)}")
    length = max(len(row) for row in rows)
    ids = [pad(row, (length - len(row), 0), value=pad_id) for row in rows]
    mask = [pad(torch.ones_like(row), (length - len(row), 0)) for row in rows]
    return BatchEncoding({"input_ids": torch.stack(ids), "attention_mask": torch.stack(mask)})


def unpadded(inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """Return the ids of each row without the padding: B tensors of different length."""
    rows = zip(inputs["input_ids"], inputs["attention_mask"], strict=True)
    return [ids[mask.bool()] for ids, mask in rows]


def filler_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the tokenizer's padding id, or 0 where it has none.

    Nobody looks at padding, so any id does for which the embedding has a row, and each has row 0.
    """
    return 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id


def check_prompts(prompts: Sequence[Messages]) -> None:
    """Raise unless this is a list of prompts, each a string or a conversation of its own."""
    if isinstance(prompts, str) or not isinstance(prompts, Sequence) or not prompts:
        raise ValueError(
            f"prompts must be a non-empty list, one entry a prompt, not {shown(prompts)}"
        )
    if any(isinstance(prompt, Mapping) for prompt in prompts):
        raise ValueError(
            f"each prompt must be a string or a list of messages, and {shown(prompts)} is one "
            "conversation: put it into a list"
        )
