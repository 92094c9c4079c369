"""The checks of the exercises in `09_stopping`."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedTokenizerBase

from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    same,
    shown,
    truth,
)

EOS, LIMIT = "eos", "max_new_tokens"


class _GoOn:
    """What stands for a stop check's ``None``, and is equal to no answer of a learner."""

    def __repr__(self) -> str:
        return "None"


GO_ON = _GoOn()


def check_stop_check(function: Any) -> str:
    """Check ``function(ids, eos_ids, limit)``: a stop reason, or ``None`` to go on."""
    eos = frozenset({7, 9})
    cases = {
        ((5,), eos, 4): None,
        ((7,), eos, 4): EOS,
        ((5, 9), eos, 4): EOS,
        ((5, 5, 5), eos, 4): None,
        ((5, 5, 5, 5), eos, 4): LIMIT,
        ((5, 5, 5, 7), eos, 4): EOS,
        ((7, 5), eos, 4): None,
        ((5, 5), frozenset(), 2): LIMIT,
    }
    if function is ... or not callable(function):
        return check_table(function, cases, {})
    # `None` is a right result here, and `attempt` takes it for a forgotten return: put another
    # value in its place.
    return check_table(
        lambda ids, eos_ids, limit: _not_none(function(list(ids), set(eos_ids), limit)),
        {arguments: _not_none(reason) for arguments, reason in cases.items()},
        {
            "your function returns None each time: is there a `return`?": (lambda *_: GO_ON),
            "the last allowed token may be an EOS: then the answer is complete": (
                lambda ids, eos_ids, limit: _not_none(_limit_first(ids, eos_ids, limit))
            ),
            "only the token just chosen can end the run; you look at all of them": (
                lambda ids, eos_ids, limit: _not_none(
                    _reason(EOS if eos_ids & set(ids) else None, ids, limit)
                )
            ),
            "EOS is missing": lambda ids, _, limit: _not_none(_reason(None, ids, limit)),
            "the limit is missing, or it comes one token too late: it counts the tokens that may "
            "exist": lambda ids, eos_ids, _: _not_none(_eos(ids, eos_ids)),
        },
    )


def check_decode_forwards(function: Any) -> str:
    """Check ``function(ids, eos_ids, limit)``: the decode forwards that the run takes.

    ``ids`` are the tokens that greedy choice gives if nothing stops it, longer than the limit.
    """
    endless = (5, 3, 9, 5, 7, 5, 5, 5, 5, 5)
    cases = {
        (endless, frozenset({7}), 8): 4,
        (endless, frozenset({7, 9}), 8): 2,
        (endless, frozenset({5}), 8): 0,
        (endless, frozenset({7}), 3): 2,
        (endless, frozenset(), 8): 7,
        (endless, frozenset({7}), 1): 0,
        (endless, frozenset({7}), 5): 4,
    }
    return check_table(
        function,
        cases,
        {
            "those are the tokens; the first of them comes out of prefill": (
                lambda ids, eos_ids, limit: _tokens(ids, eos_ids, limit)
            ),
            "EOS ends the run, too": lambda _ids, _eos_ids, limit: limit - 1,
            "the limit ends the run, too": (
                lambda ids, eos_ids, _: _tokens(ids, eos_ids, len(ids)) - 1
            ),
            "EOS is a token and counts as one; you stop before it": (
                lambda ids, eos_ids, limit: max(
                    _tokens(ids, eos_ids, limit) - 1 - bool(eos_ids & set(ids[:limit])), 0
                )
            ),
            "token 1 may be an EOS already: it is checked as well": (
                lambda ids, eos_ids, limit: min(_tokens(ids[1:], eos_ids, len(ids)), limit - 1)
            ),
        },
    )


def check_user_text(function: Any, tokenizer: PreTrainedTokenizerBase) -> str:
    """Check ``function(tokenizer, ids, eos_ids)``: the user's text, and whether it is finished."""
    if function is ...:
        return UNTRIED
    said = tokenizer(" Soup. Bread.", add_special_tokens=False)["input_ids"]
    eos = tokenizer.eos_token_id
    other = next((index for index in tokenizer.all_special_ids if index != eos), eos)
    cases = (
        ([*said, eos], True),
        (said, False),
        ([*said, said[0]], False),
        ([*said, other], True),
        ([said[0], eos, *said], False),
    )
    for ids, finished in cases:
        result, error = attempt(function, tokenizer, list(ids), {eos, other})
        if result is ...:
            return UNTRIED
        if error:
            return answer(error)
        pair = isinstance(result, tuple | list) and len(result) == 2
        if not pair or truth(result[1]) is None:
            return answer(f"return two values, the text and True or False, not {shown(result)}")
        if hint := _user_text_hint(result, tokenizer, ids, finished):
            return answer(hint)
    return RIGHT


def _user_text_hint(
    result: Any, tokenizer: PreTrainedTokenizerBase, ids: list[int], finished: bool
) -> str | None:
    text, said_finished = result[0], truth(result[1])
    right = tokenizer.decode(ids, skip_special_tokens=True)
    if not same(text, right) and same(text, tokenizer.decode(ids)):
        return "a user would read the control token: leave special tokens out of the text"
    if not same(text, right):
        return f"the text is {right!r}, yours is {shown(text)}"
    if finished and not said_finished:
        return "the last id is an EOS, one of several: the answer is finished"
    if said_finished and not finished:
        return f"the answer {right!r} was cut off: its last id is no EOS, whatever it looks like"
    return None


def check_cut_at(function: Any) -> str:
    """Check ``function(pieces, stop)``: the text before a stop string that tokens do not know."""
    cases = {
        (("Soup", ". And", " bread"), "."): "Soup",
        (("one", " two", " th", "ree", " four"), "three"): "one two ",
        (("no", " stop"), "STOP"): "no stop",
        (("a", "\n", "\nb", "\n\n"), "\n\n"): "a",
        (("END",), "END"): "",
    }
    return check_table(
        function,
        cases,
        {
            "the stop string may be spread over two pieces: search in the joined text": (
                _by_pieces
            ),
            "the stop string is for the program: leave it out": (
                lambda pieces, stop: _kept(pieces, stop)
            ),
            "cut at the first place, not at the last": (
                lambda pieces, stop: "".join(pieces).rsplit(stop, 1)[0]
            ),
            "where the stop string never comes, the whole text is the answer": (
                lambda pieces, stop: "".join(pieces)[: "".join(pieces).find(stop)]
            ),
            "nothing is cut": lambda pieces, _: "".join(pieces),
        },
    )


# --- what likely mistakes would answer ------------------------------------------------------------


def _not_none(reason: Any) -> Any:
    return GO_ON if reason is None else reason


def _eos(ids: tuple[int, ...], eos_ids: frozenset[int]) -> str | None:
    return EOS if ids[-1] in eos_ids else None


def _reason(eos: str | None, ids: tuple[int, ...], limit: int) -> str | None:
    return eos or (LIMIT if len(ids) >= limit else None)


def _limit_first(ids: tuple[int, ...], eos_ids: frozenset[int], limit: int) -> str | None:
    return _reason(None, ids, limit) or _eos(ids, eos_ids)


def _tokens(ids: tuple[int, ...], eos_ids: frozenset[int], limit: int) -> int:
    stops = [number for number, index in enumerate(ids, start=1) if index in eos_ids]
    return min([limit, *stops])


def _by_pieces(pieces: tuple[str, ...], stop: str) -> str:
    text = ""
    for piece in pieces:
        text += piece.split(stop)[0]
        if stop in piece:
            break
    return text


def _kept(pieces: tuple[str, ...], stop: str) -> str:
    before, found, _ = "".join(pieces).partition(stop)
    return before + found
