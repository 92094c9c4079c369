"""The checks of the chapter on stopping accept right answers and name likely mistakes."""

import pytest

from inside_generate.exercises import stopping as checks
from inside_generate.exercises.checking import RIGHT, UNTRIED


def stop_check(ids, eos, limit):
    if ids[-1] in eos:
        return "eos"
    return "max_new_tokens" if len(ids) >= limit else None


def limit_first(ids, eos, limit):
    if len(ids) >= limit:
        return "max_new_tokens"
    return "eos" if ids[-1] in eos else None


def eos_anywhere(ids, eos, limit):
    if eos & set(ids):
        return "eos"
    return "max_new_tokens" if len(ids) >= limit else None


def tokens(ids, eos, limit):
    for count, index in enumerate(ids, start=1):
        if index in eos or count == limit:
            return count


def tokens_before_eos(ids, eos, limit):
    for count, index in enumerate(ids):
        if index in eos or count == limit:
            return count


def first_unchecked(ids, eos, limit):
    count = 0
    while count < limit - 1:
        count += 1
        if ids[count] in eos:
            break
    return count


def cut_at(pieces, stop):
    return "".join(pieces).split(stop)[0]


def piece_by_piece(pieces, stop):
    text = ""
    for piece in pieces:
        if stop in piece:
            return text + piece.split(stop)[0]
        text += piece
    return text


def with_the_stop(pieces, stop):
    text = "".join(pieces)
    return text[: text.find(stop) + len(stop)] if stop in text else text


TABLE = {
    (checks.check_stop_check, "right"): (stop_check, RIGHT),
    (checks.check_stop_check, "limit first"): (limit_first, "the answer is complete"),
    (checks.check_stop_check, "EOS anywhere"): (eos_anywhere, "token just chosen"),
    (checks.check_stop_check, "late"): (
        lambda ids, eos, limit: stop_check(ids, eos, limit + 1),
        "one token too late",
    ),
    (checks.check_stop_check, "no EOS"): (
        lambda ids, eos, limit: stop_check(ids, set(), limit),
        "EOS is missing",
    ),
    (checks.check_stop_check, "no limit"): (
        lambda ids, eos, limit: stop_check(ids, eos, 99),
        "the limit is missing",
    ),
    (checks.check_stop_check, "nothing"): (lambda *_: None, "is there a `return`"),
    (checks.check_stop_check, "words"): (lambda *_: "full stop", "'full stop'"),
    (checks.check_stop_check, "an error"): (lambda ids: 1, "TypeError"),
    (checks.check_stop_check, "a value"): ("eos", "asks for a function"),
    (checks.check_decode_forwards, "right"): (lambda *all: tokens(*all) - 1, RIGHT),
    (checks.check_decode_forwards, "tokens"): (tokens, "comes out of prefill"),
    (checks.check_decode_forwards, "no EOS"): (lambda ids, eos, n: n - 1, "EOS ends the run"),
    (checks.check_decode_forwards, "no limit"): (
        lambda ids, eos, n: tokens(ids, eos, len(ids)) - 1,
        "the limit ends the run",
    ),
    (checks.check_decode_forwards, "before EOS"): (
        lambda *all: max(tokens_before_eos(*all) - 1, 0),
        "counts as one",
    ),
    (checks.check_decode_forwards, "first unchecked"): (first_unchecked, "token 1 may be"),
    (checks.check_decode_forwards, "nothing"): (lambda *_: None, "is there a `return`"),
    (checks.check_cut_at, "right"): (cut_at, RIGHT),
    (checks.check_cut_at, "by pieces"): (piece_by_piece, "spread over two pieces"),
    (checks.check_cut_at, "kept"): (with_the_stop, "leave it out"),
    (checks.check_cut_at, "at the last"): (
        lambda pieces, stop: "".join(pieces).rsplit(stop, 1)[0],
        "at the first place",
    ),
    (checks.check_cut_at, "never found"): (
        lambda pieces, stop: "".join(pieces)[: "".join(pieces).find(stop)],
        "never comes",
    ),
    (checks.check_cut_at, "all"): (lambda pieces, stop: "".join(pieces), "nothing is cut"),
    (checks.check_cut_at, "numbers"): (lambda pieces, stop: 4, "gives 4"),
}


@pytest.mark.parametrize(("check", "name"), TABLE, ids=lambda part: getattr(part, "__name__", part))
def test_a_check_knows_right_from_likely_wrong(check, name):
    learners, said = TABLE[check, name]
    assert said in check(learners)


def text(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda t, ids, eos: (text(t, ids), ids[-1] in eos), RIGHT),
        (lambda t, ids, eos: [text(t, ids), ids[-1] in eos], RIGHT),
        (lambda t, ids, eos: (t.decode(ids), ids[-1] in eos), "read the control token"),
        (lambda t, ids, eos: (text(t, ids), text(t, ids).endswith(".")), "was cut off"),
        (lambda t, ids, eos: (text(t, ids), False), "the answer is finished"),
        (lambda t, ids, eos: (text(t, ids), True), "was cut off"),
        (lambda t, ids, eos: (text(t, ids[:-1]), ids[-1] in eos), "yours is"),
        (lambda t, ids, eos: (text(t, ids), "eos"), "the text and True or False"),
        (lambda t, ids, eos: text(t, ids), "return two values"),
        (lambda t, ids, eos: None, "is there a `return`"),
        (lambda t: 1, "TypeError"),
        (7, "TypeError"),
        (..., UNTRIED),
        (lambda *_: ..., UNTRIED),
    ],
)
def test_the_user_texts_check(tokenizer, function, said):
    assert said in checks.check_user_text(function, tokenizer)
