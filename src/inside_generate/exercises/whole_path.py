"""The checks of the exercises in `00_the_whole_path`."""

from __future__ import annotations

from typing import Any

from inside_generate.exercises.checking import check_table


def check_forward_passes(function: Any) -> str:
    """Check ``function(T)``: the forward passes that T tokens need, as (prefill, decode)."""
    cases = {(tokens,): (1, tokens - 1) for tokens in (1, 2, 13, 64)}
    return check_table(
        function,
        cases,
        {
            "count again: token 1 comes out of prefill, so it needs no decode forward": (
                lambda tokens: (1, tokens)
            ),
            "prefill reads the whole prompt in one forward, however long it is": (
                lambda tokens: (tokens, tokens - 1)
            ),
        },
    )


def check_should_stop(function: Any) -> str:
    """Check ``function(generated_ids, eos_ids, max_new_tokens)``: whether the loop ends now."""
    eos = frozenset({7, 9})
    cases = {
        ((5,), eos, 4): False,
        ((7,), eos, 4): True,
        ((5, 9), eos, 4): True,
        ((7, 5), eos, 4): False,
        ((5, 5, 5), eos, 4): False,
        ((5, 5, 5, 5), eos, 4): True,
        ((5, 5, 5, 5), frozenset(), 4): True,
    }
    return check_table(
        function,
        cases,
        {
            "the limit is missing, or it comes one token too late: `max_new_tokens` counts the "
            "tokens that may exist": (lambda ids, eos, _: ids[-1] in eos),
            "EOS is missing: the loop would go on after the model has ended its turn": (
                lambda ids, _, limit: len(ids) >= limit
            ),
        },
    )
