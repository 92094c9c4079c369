"""The checks of the exercises in `14_batching_and_padding`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    number,
    plain,
    real_tensor,
    shown,
    whole_numbers,
)

Rows = tuple[tuple[int, ...], ...]
LEFT: tuple[Rows, ...] = (((0, 0, 1, 1), (1, 1, 1, 1)), ((1, 1, 1),), ((0, 1), (1, 1), (1, 1)))
RIGHT_PADDED = ([[1, 1, 0, 0], [1, 1, 1, 1]], [[1, 1, 1]], [[1, 0, 0], [1, 1, 1], [1, 1, 0]])


def check_next_positions(function: Any) -> str:
    """Check ``function(attention_mask)``: [B, L] → the position of each row's next token."""
    return check_table(
        _wrapped(function, lambda rows: (torch.tensor(rows),), _numbers),
        {(rows,): [sum(row) for row in rows] for rows in LEFT},
        {
            "that is the column; padding is no token and has no place in the count": (
                lambda rows: [len(row) for row in rows]
            ),
            "that is where the last token of the prompt is; the next one comes after it": (
                lambda rows: [sum(row) - 1 for row in rows]
            ),
            "one too far: positions are counted from 0": lambda rows: [
                sum(row) + 1 for row in rows
            ],
            "that is how much padding each row has": (
                lambda rows: [len(row) - sum(row) for row in rows]
            ),
            "those are the tokens of all rows; one number for each row is asked for": (
                lambda rows: [sum(map(sum, rows))]
            ),
            "that adds up the rows; add up along each row": (
                lambda rows: [sum(column) for column in zip(*rows, strict=True)]
            ),
        },
    )


def check_last_real(function: Any) -> str:
    """Check ``function(logits, attention_mask)``: [B, L, V] → [B, V], each row's last real one.

    The batch is padded on the right.
    """
    if function is ...:
        return UNTRIED
    for rows in RIGHT_PADDED:
        mask = torch.tensor(rows)
        logits = torch.arange(mask.numel() * 5.0).reshape(*mask.shape, 5)  # [B, L, V]
        result, error = attempt(function, logits.clone(), mask.clone())
        if result is ...:
            return UNTRIED
        found = real_tensor(result)
        if error or found is None:
            one = "return one tensor (torch.stack makes one of a list of tensors), not "
            return answer(error or one + shown(result))
        if hint := _last_real_hint(logits, mask, found):
            return answer(hint)
    return RIGHT


def _last_real_hint(logits: torch.Tensor, mask: torch.Tensor, found: torch.Tensor) -> str | None:
    batch, last = torch.arange(len(mask)), mask.sum(dim=1) - 1
    right = logits[batch, last]
    if torch.equal(found.double(), logits[:, last].double()):
        return "that takes each of these columns from every prompt; one from each is asked for"
    if found.shape != right.shape:
        sizes = list(right.shape), list(found.shape)
        return "the shape must be {}, one row of logits a prompt, not {}".format(*sizes)
    mistakes = {
        "that is the last column, and for a shorter prompt it is padding": logits[:, -1],
        "those are the logits of the first token": logits[:, 0],
        "one too early: the last of n tokens is in column n − 1": logits[batch, last - 1],
    }
    if torch.equal(found.double(), right.double()):
        return None
    for hint, mistake in mistakes.items():
        if torch.equal(found.double(), mistake.double()):
            return hint
    return f"for the mask {mask.tolist()} those are not the logits of each last real token"


def check_tokens_per_second(function: Any) -> str:
    """Check ``function(answer_tokens, prefill_s, step_s)``: real tokens a second, end to end."""
    cases = {
        (tokens, prefill_s, step_s): _rounded(
            sum(tokens) / (prefill_s + (max(tokens) - 1) * step_s)
        )
        for tokens, prefill_s, step_s in (
            ((5,), 1.0, 0.1),
            ((1, 8, 4), 1.0, 0.25),
            ((6, 6), 0.5, 0.1),
            ((3, 1, 2), 2.0, 0.25),
        )
    }
    return check_table(
        _wrapped(function, lambda *arguments: arguments, _rounded),
        cases,
        {
            "a row that has ended gives no more tokens: count each answer's own": _with(
                lambda tokens, p, s: len(tokens) * max(tokens) / (p + (max(tokens) - 1) * s)
            ),
            "the rows go together: the longest answer says how many steps there are": _with(
                lambda tokens, p, s: sum(tokens) / (p + sum(n - 1 for n in tokens) * s)
            ),
            "one step too many: the first token comes out of prefill": _with(
                lambda tokens, p, s: sum(tokens) / (p + max(tokens) * s)
            ),
            "prefill takes time too": _with(
                lambda tokens, _, s: sum(tokens) / (max(tokens) - 1) / s
            ),
            "the first tokens count as well: they come out of prefill": _with(
                lambda tokens, p, s: (sum(tokens) - len(tokens)) / (p + (max(tokens) - 1) * s)
            ),
            "that is the rate of the decode steps alone; the batch began with a prefill": _with(
                lambda tokens, _, s: (sum(tokens) - len(tokens)) / (max(tokens) - 1) / s
            ),
            "that is one row's; add up the tokens of all": _with(
                lambda tokens, p, s: max(tokens) / (p + (max(tokens) - 1) * s)
            ),
        },
    )


def check_trim(function: Any) -> str:
    """Check ``function(rows, eos_ids, pad_id)``: each row up to its EOS, which stays."""
    end, two = frozenset({7}), frozenset({7, 9})
    cases: dict[tuple[Any, ...], Any] = {
        arguments: [_up_to_eos(row, arguments[1]) for row in arguments[0]]
        for arguments in (
            (((5, 7, 0, 0), (5, 6, 8, 7)), end, 0),
            (((7, 7, 7), (5, 7, 7), (5, 6, 8)), end, 7),
            (((0, 5, 9, 7), (7, 0, 0, 0), (5, 0, 6, 0)), two, 0),
        )
    }
    return check_table(
        _wrapped(function, lambda rows, eos, pad: ([list(r) for r in rows], set(eos), pad), plain),
        cases,
        {
            "EOS was generated, and it counts: keep it": lambda rows, eos, _: [
                [*row][: len(_up_to_eos(row, eos)) - (_up_to_eos(row, eos)[-1] in eos)]
                for row in rows
            ],
            "an answer may hold the padding's id, and the padding may be EOS: cut by the first "
            "EOS alone": lambda rows, _, pad: [_without_end(row, pad) for row in rows],
            "an answer may hold the padding's id as well: cut by the first EOS alone": (
                lambda rows, eos, pad: [
                    [index for index in _up_to_eos(row, eos) if index != pad or pad in eos]
                    for row in rows
                ]
            ),
            "with the padding's id taken out everywhere, real tokens go too: cut by the first EOS "
            "alone": lambda rows, _, pad: [
                [index for index in row if index != pad] for row in rows
            ],
            "a row may hold several EOS ids: the first one ends it": lambda rows, eos, _: [
                _up_to_eos(row, eos, which=-1) for row in rows
            ],
            "any of the EOS ids ends a row, not the lowest alone": lambda rows, eos, _: [
                _up_to_eos(row, {min(eos)}) for row in rows
            ],
            "nothing is cut": lambda rows, *_: [[*row] for row in rows],
        },
    )


def _up_to_eos(row: tuple[int, ...], eos: Any, which: int = 0) -> list[int]:
    """Return the row up to its first EOS, or to its last one (``which=-1``)."""
    ends = [column for column, index in enumerate(row) if index in eos]
    return list(row[: ends[which] + 1]) if ends else list(row)


def _without_end(row: tuple[int, ...], pad: int) -> list[int]:
    """Return the row without the padding ids at its end."""
    while row and row[-1] == pad:
        row = row[:-1]
    return list(row)


# --- a learner's function, made comparable --------------------------------------------------------


def _wrapped(
    function: Any, arguments: Callable[..., tuple[Any, ...]], read: Callable[[Any], Any]
) -> Any:
    """Return the learner's function with its inputs made and its result read; ``...`` stays."""
    if function is ... or not callable(function):
        return function

    def run(*inputs: Any) -> Any:
        result = function(*arguments(*inputs))
        return result if result is ... or result is None else read(result)

    return run


def _numbers(result: Any) -> Any:
    found = whole_numbers(result)
    return result if found is None else found


def _rounded(result: Any) -> Any:
    """Return a number to six digits: neither fp32 nor the order of a sum's terms is a mistake."""
    found = number(result)
    return result if found is None else float(f"{found:.6g}")


def _with(mistake: Callable[..., float]) -> Callable[..., Any]:
    return lambda *arguments: _rounded(mistake(*arguments))
