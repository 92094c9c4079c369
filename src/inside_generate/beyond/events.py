"""Reading a stream of events: the form in which servers send an answer while they write it.

Knows the text format alone: lines of ``data:``, an empty line after each event (the HTML standard,
section "Server-sent events"). What an event of a chat holds is in ``client.py``.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

LONGEST = 1_000_000  # characters of one line, or of one event


def events(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of each event, whatever the pieces are that its bytes arrive in.

    An event that the stream ends in is dropped, as the standard has it: it may be half of one.
    Raises ``ValueError`` where the stream is not UTF-8, or an event has no end.
    """
    data: list[str] = []
    size = 0
    for line in lines(pieces):
        field, _, value = line.partition(":")
        if field == "data":  # an empty field begins a remark; other fields are not for us
            data.append(value.removeprefix(" "))
            size += len(data[-1]) + 1  # the newline between two counts as well
            if size > LONGEST:
                raise ValueError(f"an event of more than {LONGEST} characters")
        elif not line and data:
            yield "\n".join(data)
            data, size = [], 0


def lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield the finished lines of a stream; they end in CR LF, LF, or CR."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    rest, first = "", True
    for piece in pieces:
        try:
            rest += decoder.decode(piece)
        except UnicodeDecodeError as error:
            raise ValueError(f"not UTF-8 ({error.reason})") from error
        if first and rest:
            rest, first = rest.removeprefix("\ufeff"), False
        held = "\r" if rest.endswith("\r") else ""  # a LF may follow in the next piece
        whole = rest.removesuffix(held).replace("\r\n", "\n").replace("\r", "\n") + held
        *finished, rest = whole.split("\n")
        yield from finished
        if len(rest) > LONGEST:
            raise ValueError(f"a line of more than {LONGEST} characters")
    if rest.endswith("\r"):
        yield rest[:-1]
