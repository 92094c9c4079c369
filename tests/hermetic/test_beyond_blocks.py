"""The small model of a paged cache counts right: blocks, waste, who runs and who waits."""

import pytest

from inside_generate.beyond.blocks import Moment, Request, blocks_for, serve


def test_blocks_are_whole_and_the_last_may_be_part_empty():
    assert [blocks_for(tokens, 16) for tokens in (0, 1, 16, 17, 50)] == [0, 1, 1, 2, 4]


def test_one_request_gets_a_block_when_its_last_one_is_full():
    moments = serve([Request(3, 4)], blocks=9, block_tokens=2)
    assert moments == [
        Moment(1, 0, 4, 3),  # the prompt; token 1 comes out of it
        Moment(1, 0, 4, 4),
        Moment(1, 0, 6, 5),
        Moment(1, 0, 6, 6),  # token 4 is never in the cache
    ]


def test_a_reservation_is_held_from_the_start_and_lets_fewer_run():
    requests = [Request(4, 5)] * 6
    reserved = serve(requests, blocks=8, block_tokens=4, reserve_tokens=16)
    demand = serve(requests, blocks=8, block_tokens=4)
    assert {moment.held for moment in reserved} == {32}
    assert max(moment.running for moment in reserved) == 2
    assert max(moment.running for moment in demand) > 2
    assert len(demand) < len(reserved) == 3 * 5


def test_who_comes_first_is_served_first_and_a_place_goes_on_at_once():
    moments = serve([Request(1, 2), Request(1, 4), Request(1, 3)], 2, 8, reserve_tokens=8)
    assert [(moment.running, moment.waiting) for moment in moments] == [
        *[(2, 1)] * 2,  # the first ends, the third takes its place
        *[(2, 0)] * 2,
        (1, 0),
    ]


def test_where_no_block_is_left_the_youngest_begins_again():
    moments = serve([Request(4, 5), Request(4, 5)], blocks=3, block_tokens=4)
    assert [(moment.running, moment.waiting) for moment in moments] == [
        (2, 0),
        *[(1, 1)] * 4,  # each wants a second block, and there is one
        *[(1, 0)] * 5,
    ]


def test_never_more_is_held_than_there_is_nor_filled_than_held():
    requests = [Request(length, 2 + length % 7) for length in range(1, 30)]
    for reserve in (None, 36):
        moments = serve(requests, blocks=12, block_tokens=5, reserve_tokens=reserve)
        assert all(moment.filled <= moment.held <= 60 for moment in moments)
        assert all(moment.running for moment in moments)
        assert moments[-1].waiting == 0


def test_no_request_takes_no_step():
    assert serve([], 4, 16) == []


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"requests": [Request(30, 4)]}, "needs 5 blocks, and there are 4"),
        ({"reserve_tokens": 40}, "needs 5 blocks"),
        ({"reserve_tokens": 8}, "8 tokens reserved, and a request needs 10"),
        ({"blocks": 0}, "blocks must be"),
        ({"block_tokens": 1.5}, "block_tokens must be"),
        ({"requests": [Request(0, 4)]}, "prompt_tokens must be"),
        ({"requests": [Request(4, 0)]}, "answer_tokens must be"),
    ],
)
def test_what_cannot_be_served_is_refused(wrong, words):
    right = {"requests": [Request(8, 3)], "blocks": 4, "block_tokens": 8}
    with pytest.raises(ValueError, match=words):
        serve(**(right | wrong))


@pytest.mark.parametrize(("tokens", "block"), [(2**53 + 1, 1), (3 * 10**17 + 1, 3), (10**400, 16)])
def test_blocks_are_counted_exactly_however_many_there_are(tokens, block):
    needed = blocks_for(tokens, block)
    assert (needed - 1) * block < tokens <= needed * block
