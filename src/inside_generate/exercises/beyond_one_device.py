"""The checks of the exercises in `19_beyond_one_device`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inside_generate.beyond.events import events
from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    number,
    plain,
    same,
    shown,
)

# layers, hidden size, tokens, bytes per number
FORWARDS = ((24, 896, 1, 2), (24, 896, 35, 2), (30, 576, 1, 4), (2, 64, 7, 4), (1, 8, 3, 1))

# bytes of memory, bytes of weights, bytes of cache per token, tokens of context
DEVICES = ((10_000, 4_000, 3, 100), (10_000, 4_000, 7, 100), (5_000, 4_000, 1, 1_000), (9, 5, 2, 3))

# clients, places, seconds of each answer
QUEUES = ((8, 4, 2.0), (5, 2, 1.5), (3, 8, 1.0), (7, 1, 0.5), (9, 3, 4.0))

# Pieces of a stream, and what is likely to be wrong where only these come out wrong.
STREAMS: dict[tuple[bytes, ...], str] = {
    (b"data: soup\n\n", b"data: and bread\n\n"): "one event a piece is the easiest case",
    (b"data: a\n\ndata: b\n\ndata: c\n\n",): "one piece may hold several events",
    (b"data: so", b"up\n\ndata: an apple\n", b"\n"): (
        "an event may be cut between two pieces: put the bytes together first"
    ),
    ("data: 汤\n\n".encode()[:8], "data: 汤\n\n".encode()[8:]): (
        "a character of several bytes may be cut between two pieces: join bytes, then decode"
    ),
    (b": still there\n\ndata: soup\n\n",): "a line that begins with a colon is a remark, no data",
    (b"data: x: y\n\n",): "only the first colon ends the word `data`",
    (b"data: whole\n\n", b"data: half of on"): (
        "the stream ended within the last event: it may be half of one, so drop it"
    ),
}


def check_bytes_between(function: Any) -> str:
    """Check ``function(layers, hidden_size, tokens, bytes_each)``: what a rank puts into sums."""
    return check_table(
        function,
        {case: (1 + 2 * case[0]) * case[1] * case[2] * case[3] for case in FORWARDS},
        {
            "the embedding is summed up as well, once": lambda n, d, t, b: 2 * n * d * t * b,
            "a layer has two sums: one after attention, one after the MLP": (
                lambda n, d, t, b: (1 + n) * d * t * b
            ),
            "two mistakes: the embedding's sum, and the second one of each layer": (
                lambda n, d, t, b: n * d * t * b
            ),
            "each token has its own vector": lambda n, d, _, b: (1 + 2 * n) * d * b,
            "those are numbers, not bytes": lambda n, d, t, _: (1 + 2 * n) * d * t,
            "the embedding is summed once, not twice": lambda n, d, t, b: (2 + 2 * n) * d * t * b,
        },
    )


def check_rows_that_fit(function: Any) -> str:
    """Check ``function(memory, weights, per_token, context)``: rows that fit beside the weights."""
    return check_table(
        function,
        {case: (case[0] - case[1]) // (case[2] * case[3]) for case in DEVICES},
        {
            "the weights take their part first": lambda m, _, k, c: m // (k * c),
            "each row has its own weights only where each is a process of its own": (
                lambda m, w, k, c: m // (w + k * c)
            ),
            "a row is as long as its context": lambda m, w, k, _: (m - w) // k,
            "part of a row is no row: round down": lambda m, w, k, c: (m - w) / (k * c),
            "rounded up, the last row does not fit": lambda m, w, k, c: -((w - m) // (k * c)),
        },
    )


def check_waits(function: Any) -> str:
    """Check ``function(clients, places, seconds)``: how long each client waits for its place."""
    return check_table(
        _read(function, _rounded),
        {case: _waves(*case) for case in QUEUES},
        {
            "that is one place; with more, several clients are served at once": (
                lambda n, _, s: [round(s * i, 6) for i in range(n)]
            ),
            "that is when each has its whole answer; they begin to be served earlier": (
                lambda n, p, s: [round(s * (i // p + 1), 6) for i in range(n)]
            ),
            "that is the wait of one client; return a list with each client's": (
                lambda n, p, s: _waves(n, p, s)[-1]
            ),
            "the first client that has to wait is the one after the last place": (
                lambda n, p, s: [round(s * ((i + 1) // p), 6) for i in range(n)]
            ),
            "a place is free again only when its whole answer is finished": (
                lambda n, p, s: [round(s * i / p, 6) for i in range(n)]
            ),
        },
    )


def check_events(function: Any) -> str:
    """Check ``function(pieces)``: pieces of bytes → the data of each finished event."""
    if function is ...:
        return UNTRIED
    if not callable(function):
        return answer(f"this asks for a function, not for {shown(function)}")
    for pieces, likely in STREAMS.items():
        right = list(events(pieces))
        result, error = attempt(function, list(pieces))
        if result is ...:
            return UNTRIED
        if error:
            return answer(f"{error}; it was given {list(pieces)}")
        if same(result, [f"data: {data}" for data in right]):
            return answer("leave out the word `data:` and the space after it")
        if not same(result, right):
            return answer(f"for {list(pieces)} your function gives {shown(result)}; {likely}")
    return RIGHT


def _waves(clients: int, places: int, seconds: float) -> list[float]:
    return [round(client // places * seconds, 6) for client in range(clients)]


def _rounded(value: Any) -> Any:
    """Return a learner's number or list of numbers, rounded; anything else as it is."""
    found = plain(value)
    if isinstance(found, list):
        return [_rounded(part) for part in found]
    return value if (one := number(found)) is None else round(one, 6)


def _read(function: Any, reading: Callable[[Any], Any]) -> Any:
    """Return the learner's function with its results read in one way; what is none, as it is."""
    if not callable(function):
        return function

    def read(*arguments: Any) -> Any:
        result = function(*arguments)
        if result is None or result is ... or hasattr(result, "__next__"):
            return result
        return reading(result)

    return read
