"""The checks of the exercises in `00_the_whole_path`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inside_generate.exercises.checking import (
    UNTRIED,
    answer,
    check_table,
    number,
    raised,
    shown,
    truth,
    whole_numbers,
)
from inside_generate.reference import reference_generation_config

LIMIT = 64  # tokens, of the loop that the settings are compared with


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
            "return both counts, as a pair: (prefill, decode)": (lambda tokens: tokens),
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
        ((5, 5, 5, 9), eos, 4): True,
        ((5, 5, 5, 5), frozenset(), 4): True,
    }
    return check_table(
        function,
        cases,
        {
            "the limit is missing, or it comes one token too late: `max_new_tokens` counts the "
            "tokens that may exist": (lambda ids, eos, _: ids[-1] in eos),
            "EOS is missing, or never found: is the last id `in` the set? As it is, the loop would "
            "go on after the model has ended its turn": (lambda ids, _, limit: len(ids) >= limit),
            "only the last id counts: those before it were looked at when they were chosen": (
                lambda ids, eos, limit: any(i in eos for i in ids) or len(ids) >= limit
            ),
            "each of the two reasons is enough alone: `or`, not `and`": (
                lambda ids, eos, limit: ids[-1] in eos and len(ids) >= limit
            ),
            "the EOS ids are a set: ask whether the last id is `in` it": (
                lambda ids, eos, _: ids[-1] == eos
            ),
        },
    )


def check_equal_settings(settings: Any) -> str:
    """Check keywords with which ``generate()`` of the reference equals the greedy loop.

    ``settings`` is a dictionary; what it leaves out stays as the reference's settings have it.
    """
    if settings is ...:
        return UNTRIED
    if not isinstance(settings, Mapping):
        return answer(f"this asks for a dictionary of keywords, not for {shown(settings)}")
    try:
        return answer(_settings_hint(settings))
    except Exception as error:  # a dictionary of the learner's own kind may raise anything
        return answer(f"reading your dictionary raised {raised(error)}")


def _settings_hint(settings: Mapping[Any, Any]) -> str | None:
    defaults = reference_generation_config()
    for name in settings:
        if not isinstance(name, str) or not hasattr(defaults, name):
            return f"`generate()` has no setting {shown(name)}"

    def chosen(name: str) -> Any:
        given = settings.get(name)
        return getattr(defaults, name) if given is None else given

    if truth(chosen("do_sample")) is not False:
        return "it samples: as published it draws tokens at random, and nothing here stops that"
    if number(chosen("repetition_penalty")) == defaults.repetition_penalty:
        return "the published penalty is still on: it counts the prompt as something already said"
    if number(chosen("repetition_penalty")) != 1:
        return "a score is divided or multiplied by the penalty: which number leaves it alone?"
    if _ids(chosen("eos_token_id")) != _ids(defaults.eos_token_id):
        return "it stops at other ids than the loop, which takes all EOS ids that are published"
    if number(chosen("max_new_tokens")) != LIMIT:
        return f"the limit is another: the loop allows {LIMIT} new tokens"
    if number(settings.get("num_beams", 1)) not in (None, 1):
        return "several beams are another search; the loop follows one path"
    return None


def _ids(eos_token_id: Any) -> set[int] | None:
    listed = list(eos_token_id) if isinstance(eos_token_id, set | frozenset) else eos_token_id
    numbers = whole_numbers(listed)
    return None if numbers is None else set(numbers)
