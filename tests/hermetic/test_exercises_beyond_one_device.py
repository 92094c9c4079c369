"""The checks of the chapter past one device accept right answers and name likely mistakes."""

import math

import pytest
import torch

from inside_generate.beyond.events import events
from inside_generate.exercises import beyond_one_device as checks
from inside_generate.exercises.checking import RIGHT, UNTRIED


def joined(pieces):
    return b"".join(pieces).decode("utf-8", "replace")


def parsed(pieces, blocks=slice(None, -1), prefix="data: "):
    found = joined(pieces).split("\n\n")[blocks]
    return [block.removeprefix(prefix) for block in found if block.startswith("data: ")]


def each_piece(pieces):
    return [data for piece in pieces for data in parsed([piece], slice(None))]


TABLE = {
    (checks.check_bytes_between, "right"): (
        lambda n, d, tokens, each: (2 * n + 1) * d * tokens * each,
        RIGHT,
    ),
    (checks.check_bytes_between, "a tensor"): (
        lambda *all: torch.tensor((2 * all[0] + 1) * math.prod(all[1:])),
        RIGHT,
    ),
    (checks.check_bytes_between, "no embedding"): (
        lambda n, d, tokens, each: 2 * n * d * tokens * each,
        "the embedding is summed up as well",
    ),
    (checks.check_bytes_between, "one sum"): (
        lambda n, d, tokens, each: (n + 1) * d * tokens * each,
        "two sums",
    ),
    (checks.check_bytes_between, "both"): (lambda *all: math.prod(all), "two mistakes"),
    (checks.check_bytes_between, "one token"): (
        lambda n, d, tokens, each: (2 * n + 1) * d * each,
        "own vector",
    ),
    (checks.check_bytes_between, "numbers"): (
        lambda n, d, tokens, each: (2 * n + 1) * d * tokens,
        "not bytes",
    ),
    (checks.check_bytes_between, "twice"): (
        lambda n, d, tokens, each: 2 * (n + 1) * d * tokens * each,
        "not twice",
    ),
    (checks.check_bytes_between, "raises"): (lambda *all: 1 / 0, "raised ZeroDivisionError"),
    (checks.check_rows_that_fit, "right"): (lambda m, w, k, c: (m - w) // (c * k), RIGHT),
    (checks.check_rows_that_fit, "floats"): (
        lambda m, w, k, c: float(math.floor((m - w) / c / k)),
        RIGHT,
    ),
    (checks.check_rows_that_fit, "no weights"): (lambda m, w, k, c: m // (c * k), "their part"),
    (checks.check_rows_that_fit, "weights each"): (
        lambda m, w, k, c: m // (c * k + w),
        "own weights",
    ),
    (checks.check_rows_that_fit, "tokens"): (lambda m, w, k, c: (m - w) // k, "its context"),
    (checks.check_rows_that_fit, "not rounded"): (
        lambda m, w, k, c: (m - w) / (k * c),
        "round down",
    ),
    (checks.check_rows_that_fit, "rounded up"): (
        lambda m, w, k, c: math.ceil((m - w) / (k * c)),
        "rounded up",
    ),
    (checks.check_rows_that_fit, "words"): (lambda *all: "many", "your function gives 'many'"),
    (checks.check_waits, "right"): (
        lambda n, places, s: [i // places * s for i in range(n)],
        RIGHT,
    ),
    (checks.check_waits, "a generator"): (
        lambda n, places, s: (i // places * s for i in range(n)),
        RIGHT,
    ),
    (checks.check_waits, "a tensor"): (
        lambda n, places, s: torch.arange(n) // places * s,
        RIGHT,
    ),
    (checks.check_waits, "one place"): (
        lambda n, places, s: [i * s for i in range(n)],
        "one place",
    ),
    (checks.check_waits, "finished"): (
        lambda n, places, s: [(i // places + 1) * s for i in range(n)],
        "whole answer; they",
    ),
    (checks.check_waits, "the last"): (lambda n, places, s: (n - 1) // places * s, "one client"),
    (checks.check_waits, "too early"): (
        lambda n, places, s: [(i + 1) // places * s for i in range(n)],
        "after the last place",
    ),
    (checks.check_waits, "smooth"): (
        lambda n, places, s: [i / places * s for i in range(n)],
        "only when its whole answer",
    ),
    (checks.check_waits, "nothing"): (lambda *all: None, "is there a `return`"),
    (checks.check_events, "right"): (parsed, RIGHT),
    (checks.check_events, "the package's"): (events, RIGHT),
    (checks.check_events, "piece by piece"): (each_piece, "cut between two pieces"),
    (checks.check_events, "decodes pieces"): (
        lambda pieces: parsed([b.decode("utf-8", "replace").encode() for b in pieces]),
        "join bytes, then decode",
    ),
    (checks.check_events, "strictly"): (
        lambda pieces: parsed(["".join(b.decode() for b in pieces).encode()]),
        "raised UnicodeDecodeError",
    ),
    (checks.check_events, "with the word"): (lambda pieces: parsed(pieces, prefix=""), "leave out"),
    (checks.check_events, "half"): (lambda pieces: parsed(pieces, slice(None)), "half of one"),
    (checks.check_events, "remarks"): (
        lambda pieces: [b.split(":", 1)[1].strip() for b in joined(pieces).split("\n\n")[:-1]],
        "a remark",
    ),
    (checks.check_events, "colons"): (
        lambda pieces: [data.split(":")[-1].strip() for data in events(pieces)],
        "first colon",
    ),
    (checks.check_events, "a number"): (lambda pieces: 3, "your function gives 3"),
}


@pytest.mark.parametrize(("check", "name"), TABLE, ids=lambda part: getattr(part, "__name__", part))
def test_a_likely_answer_gets_its_words(check, name):
    function, words = TABLE[check, name]
    found = check(function)
    assert words in found
    assert found == RIGHT or found.startswith("Not yet: ")


@pytest.mark.parametrize("check", sorted({check for check, _ in TABLE}, key=repr))
@pytest.mark.parametrize("garbage", [..., None, 3, "soup", [1], {}, float("nan")])
def test_whatever_is_handed_in_gets_an_answer(check, garbage):
    assert check(garbage).startswith("Not yet")
    assert check(lambda *arguments: garbage).startswith("Not yet")
    assert (check(garbage) == UNTRIED) == (garbage is ...)
