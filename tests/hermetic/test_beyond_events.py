"""Streams of events are read as the standard has it, whatever pieces their bytes arrive in."""

from itertools import pairwise

import pytest

from inside_generate.beyond import events as module
from inside_generate.beyond.events import events

STREAM = (
    "\ufeffdata: soup\n\n"
    ": still there\n\n"
    "event: token\ndata:bread\ndata: and  butter\nid: 7\n\n"
    "data: 今天午饭\r\ndata: 吃什么\r\n\r\n"
    "data\rretry: 5\r\r"
    'data: {"a": "b: c"}\n\n'
    "nodata: x\n\n"
    "data: half of on"
).encode()
FOUND = ["soup", "bread\nand  butter", "今天午饭\n吃什么", "", '{"a": "b: c"}']


def cut(stream, *places):
    return [stream[a:b] for a, b in pairwise((0, *places, len(stream)))]


def test_each_finished_event_comes_out_once_and_in_order():
    assert list(events([STREAM])) == FOUND


@pytest.mark.parametrize("place", range(len(STREAM)))
def test_a_cut_anywhere_changes_nothing(place):
    assert list(events(cut(STREAM, place))) == FOUND


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_small_pieces_change_nothing(size):
    assert list(events(cut(STREAM, *range(size, len(STREAM), size)))) == FOUND


def test_an_event_comes_out_as_soon_as_it_is_finished():
    stream = iter([b"data: a\n\nda", b"ta: b\n\n"])
    found = events(stream)
    assert next(found) == "a"
    assert next(stream) == b"ta: b\n\n"  # nothing was read ahead


def test_the_end_of_a_line_at_the_very_end_counts():
    assert list(events([b"data: a\n\n"])) == ["a"]
    assert list(events([b"data: a\r", b"\r"])) == ["a"]
    assert list(events([b"data: a\n"])) == []
    assert list(events([])) == []


def test_what_is_no_stream_of_events_is_refused():
    with pytest.raises(ValueError, match="not UTF-8"):
        list(events([b"data: \xff\n\n"]))


def test_an_event_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(module, "LONGEST", 50)
    with pytest.raises(ValueError, match="a line of more than 50"):
        list(events([b"data: "] + [b"x" * 20] * 3))
    with pytest.raises(ValueError, match="an event of more than 50"):
        list(events([b"data: xxxxxxxxxxxxxxxxxxxx\n"] * 3))


def test_an_event_of_empty_lines_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(module, "LONGEST", 50)
    with pytest.raises(ValueError, match="an event of more than 50"):
        list(events([b"data:\n"] * 60))
