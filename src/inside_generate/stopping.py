"""When the loop ends: at an end-of-sequence (EOS) token, or at the limit of new tokens.

EOS is predicted like any other token; only the program around the model gives it a meaning.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from numbers import Integral  # NumPy's whole numbers are these, and no int
from typing import Any

import numpy as np
import torch
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from inside_generate.errors import shown
from inside_generate.guards import check_has

EosTokenIds = int | Iterable[int] | torch.Tensor | None

EOS = "eos"
LIMIT = "max_new_tokens"
PAIR = "the model is wanted here; load() returns the tokenizer first, then the model"


def resolve_eos_token_ids(
    eos_token_ids: EosTokenIds,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> frozenset[int]:
    """Return the ids at which the loop stops.

    ``None`` means those at which ``generate()`` would stop: all ids of the generation config. Where
    another file of the checkpoint names an id that is not among them, a warning says which. An id
    that the model cannot predict is an error: the loop would never stop at it.
    """
    check_has(model, "config", "generation_config", hint=PAIR)
    if eos_token_ids is not None:
        return _known(as_id_set(eos_token_ids), model.config)
    stops = _known(as_id_set(getattr(model.generation_config, "eos_token_id", None)), model.config)
    elsewhere = {"config.json": as_id_set(getattr(model.config, "eos_token_id", None))}
    if tokenizer is not None:
        elsewhere["the tokenizer"] = as_id_set(tokenizer.eos_token_id)
    union = sorted(stops.union(*elsewhere.values()))
    for source, ids in elsewhere.items():
        if ignored := sorted(ids - stops):
            warnings.warn(
                f"{source} names the EOS ids {ignored}, but generate() stops only at those of the "
                f"generation config, {sorted(stops)}; to stop at all of them pass "
                f"eos_token_ids={union}",
                stacklevel=3,
            )
    return stops


def _known(stops: frozenset[int], config: PretrainedConfig) -> frozenset[int]:
    """Return the ids, or raise where the model has no such token."""
    if beyond := sorted(index for index in stops if index >= config.vocab_size):
        raise ValueError(
            f"the EOS ids {shown(beyond)} are not among the model's 0 to {config.vocab_size - 1}: "
            "it would never stop at them; pass others as eos_token_ids"
        )
    return stops


def as_id_set(ids: EosTokenIds) -> frozenset[int]:
    """Return an int, a collection of ints, a tensor or ``None`` as a set of ids."""
    found: Any = ids if ids is not None else []
    if isinstance(found, (torch.Tensor, np.ndarray)):
        found = found.flatten().tolist()
    if isinstance(found, (str, bytes, dict)) or not isinstance(found, Iterable):
        found = [found]
    whole = list(found)
    for index in whole:
        if isinstance(index, bool) or not isinstance(index, Integral) or index < 0:
            raise ValueError(f"an EOS id must be a whole number of at least 0, not {shown(index)}")
    return frozenset(int(index) for index in whole)


def check_limit(
    max_new_tokens: int, prompt_shape: tuple[int, ...], config: PretrainedConfig
) -> None:
    """Raise where the limit is not a whole number ≥ 1, or prompt and answer cannot fit.

    ``prompt_shape`` is [1, L]. The last token picked never becomes an input, hence the −1 below.
    """
    limit: Any = max_new_tokens
    if isinstance(limit, bool) or not isinstance(limit, Integral):
        raise TypeError(f"max_new_tokens must be a whole number, not {shown(max_new_tokens)}")
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens must be at least 1, not {max_new_tokens}")
    if len(prompt_shape) != 2 or prompt_shape[0] != 1:
        raise ValueError(f"one prompt at a time, [1, L], not {list(prompt_shape)}")
    length = prompt_shape[1]
    window = getattr(config, "max_position_embeddings", None)
    needed = length + max_new_tokens - 1
    if window is not None and needed > window:
        raise ValueError(
            f"{length} prompt tokens and up to {max_new_tokens} new ones need {needed} positions, "
            f"but the model has {window} (max_position_embeddings): "
            "shorten the prompt or lower max_new_tokens"
        )
