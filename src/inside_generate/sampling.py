"""From logits to the next token id.

A sampler takes the logits of the last position, ``[B, V]``, and returns one id a row, ``[B]``. It
gets no model, and ought not to change the logits: the forward pass and the choice stay apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

Sampler = Callable[[torch.Tensor], torch.Tensor]
TokenRows = torch.Tensor | Sequence[torch.Tensor]  # the ids of each row so far, prompt included


@dataclass(frozen=True)
class SeesTokens:
    """A sampler that must know the tokens so far, as a repetition penalty must.

    ``function`` takes the logits, [B, V], and for each row its own ids: a tensor [B, n], or B
    tensors of different length, without the padding.
    """

    function: Callable[[torch.Tensor, TokenRows], torch.Tensor]


def greedy(logits: torch.Tensor) -> torch.Tensor:
    """Return the id of the highest logit of each row: [B, V] → [B].

    Softmax keeps the order of its inputs, so no probabilities are needed for this. Of equal logits
    the lowest id wins, as the documentation of ``torch.argmax`` promises.
    """
    return logits.argmax(dim=-1)


def choose(
    sampler: Sampler | SeesTokens, logits: torch.Tensor, token_ids: TokenRows
) -> torch.Tensor:
    """Ask a sampler for one id a row, [B]; only one that sees tokens is given them."""
    if isinstance(sampler, SeesTokens):
        return check_choice(sampler.function(logits, token_ids), logits)
    return check_choice(sampler(logits), logits)


def check_choice(token_ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """Return what a sampler chose, or raise where it is not one valid id a row."""
    batch, vocabulary = logits.shape
    if not isinstance(token_ids, torch.Tensor) or token_ids.shape != (batch,):
        shape = getattr(token_ids, "shape", type(token_ids).__name__)
        raise ValueError(f"a sampler must return one id a row, shape [{batch}], not {shape}")
    numbers = not (token_ids.is_floating_point() or token_ids.dtype == torch.bool)
    if not numbers or not bool(((token_ids >= 0) & (token_ids < vocabulary)).all()):
        raise ValueError(f"a sampler must return ids from 0 to {vocabulary - 1}, not {token_ids}")
    return token_ids.long()
