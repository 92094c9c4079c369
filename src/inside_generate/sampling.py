"""From logits to the next token id: greedy, or drawn by chance.

A sampler takes the logits of the last position, ``[B, V]``, and returns one id a row, ``[B]``. It
gets no model, and ought not to change the logits: the forward pass and the choice stay apart. What
may be done to the logits before the choice is in ``filters.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from inside_generate.errors import shown
from inside_generate.filters import TokenRows, check_logits, filtered, penalise_repetition
from inside_generate.guards import whole_number

Sampler = Callable[[torch.Tensor], torch.Tensor]


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


def draw(logits: torch.Tensor, generator: torch.Generator | None = None) -> torch.Tensor:
    """Draw one id a row, each token as often as its probability says: [B, V] → [B].

    Softmax in fp32, whatever the dtype of the logits. The draw is made on the generator's device;
    without one by torch's own generator, where the logits are.
    """
    check_logits(logits)
    if not isinstance(generator, torch.Generator | None):
        raise ValueError(f"generator must be a torch.Generator, not {shown(generator)}")
    probabilities = logits.float().softmax(dim=-1)
    if probabilities.isnan().any():  # a GPU's own error would leave it unusable
        raise ValueError(
            "the logits give no probabilities (NaN, or infinite): the weights are damaged, the "
            "dtype is too small for this model, or the temperature too near 0"
        )
    place = logits.device if generator is None else generator.device
    drawn = probabilities.to(place).multinomial(1, generator=generator)  # [B, 1]
    return drawn[:, 0].to(logits.device)


def sampling(
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
    seed: int | torch.Generator | None = None,
) -> Sampler | SeesTokens:
    """Make a sampler that draws, after the filters asked for, in the order of ``generate()``.

    Penalty, temperature, top-k, top-p, min-p, then the draw; all in fp32. ``seed`` starts a
    generator of the sampler's own, on the CPU whatever the model is on. Each draw moves it on: for
    the same answer again make the sampler again. A generator may be passed in its place.
    """
    narrow = partial(filtered, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    narrow(torch.zeros(1, 1))  # what is wrong is refused now, not at the first token
    generator = _generator(seed)

    def sampler(logits: torch.Tensor) -> torch.Tensor:
        return draw(narrow(logits), generator)

    after_penalty = penalised(repetition_penalty, sampler)
    return sampler if repetition_penalty == 1 else after_penalty


def penalised(penalty: float, sampler: Sampler = greedy) -> SeesTokens:
    """Put a repetition penalty, in fp32, before a sampler; greedy with one, for example."""
    penalise_repetition(torch.zeros(1, 1), torch.zeros(1, 1).long(), penalty)  # refused now
    _check_function(sampler, "one without a penalty of its own")

    def function(logits: torch.Tensor, token_ids: TokenRows) -> torch.Tensor:
        return sampler(penalise_repetition(logits.float(), token_ids, penalty))

    return SeesTokens(function)


def choose(
    sampler: Sampler | SeesTokens, logits: torch.Tensor, token_ids: TokenRows
) -> torch.Tensor:
    """Ask a sampler for one id a row, [B]; only one that sees tokens is given them."""
    if isinstance(sampler, SeesTokens):
        return check_choice(sampler.function(logits, token_ids), logits)
    _check_function(sampler, "such as greedy or sampling()")
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


def _check_function(sampler: Any, which: str) -> None:
    if not callable(sampler):
        raise ValueError(f"a sampler must be a function of logits, {which}, not {shown(sampler)}")


def _generator(seed: int | torch.Generator | None) -> torch.Generator | None:
    if seed is None or isinstance(seed, torch.Generator):
        return seed
    number = whole_number("seed", seed)
    if not 0 <= number < 2**63:
        raise ValueError(f"seed must be from 0 to 2**63 - 1, not {number}")
    return torch.Generator().manual_seed(number)
