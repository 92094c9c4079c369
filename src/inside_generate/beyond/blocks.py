"""A KV cache in blocks, in small: who holds which memory, and how many requests run at once.

Knows counting alone: no keys, no values. A request either gets the most that it may ever need, at
once, or a block whenever its last one is full. Real allocators also share blocks between requests
that begin alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inside_generate.guards import check_sizes


@dataclass(frozen=True)
class Request:
    """A prompt's tokens, and how many its answer will have."""

    prompt_tokens: int
    answer_tokens: int

    @property
    def cached_at_the_end(self) -> int:
        """Tokens in the cache at the end: the answer's last is never in it."""
        return self.prompt_tokens + self.answer_tokens - 1


@dataclass(frozen=True)
class Moment:
    """One step of a server: how many run and wait, and the cache's slots."""

    running: int
    waiting: int
    held: int  # slots that belong to a request
    filled: int  # of these, slots with a token in them


def blocks_for(tokens: int, block_tokens: int) -> int:
    """Return how many blocks hold ``tokens`` tokens: the last one may be part empty."""
    check_sizes(tokens=tokens)
    check_sizes(1, block_tokens=block_tokens)
    return -(-tokens // block_tokens)  # rounded up, exact for numbers of any size


def serve(
    requests: Sequence[Request],
    blocks: int,
    block_tokens: int,
    reserve_tokens: int | None = None,
) -> list[Moment]:
    """Serve requests, first come first served, and return each step until all have ended.

    ``reserve_tokens``: slots that each request gets at once and keeps; ``None`` gives blocks on
    demand. A step makes one token for each that runs; prefill counts as the first of its steps.
    Where no block is free for a running request, the youngest goes back to the queue, to begin
    again when another has ended. Raises ``ValueError`` where a request cannot fit alone.
    """
    check_sizes(1, blocks=blocks, block_tokens=block_tokens)
    for one in requests:
        check_sizes(1, prompt_tokens=one.prompt_tokens, answer_tokens=one.answer_tokens)
    largest = max((request.cached_at_the_end for request in requests), default=0)
    if (needed := blocks_for(reserve_tokens or largest, block_tokens)) > blocks:
        raise ValueError(f"a request needs {needed} blocks, and there are {blocks}")
    if reserve_tokens is not None and reserve_tokens < largest:
        raise ValueError(f"{reserve_tokens} tokens reserved, and a request needs {largest}")

    def held(place: _Place) -> int:
        return blocks_for(reserve_tokens or place.cached, block_tokens)

    waiting = [_Place(one) for one in requests]
    running: list[_Place] = []
    moments: list[Moment] = []
    full = False  # nobody is let in while those who run want more than there is
    while waiting or running:
        for place in running:
            place.made += 1
        while sum(map(held, running)) > blocks:  # the youngest makes room
            running[-1].made = 1
            waiting.insert(0, running.pop())
            full = True
        while waiting and not full and sum(map(held, [*running, waiting[0]])) <= blocks:
            running.append(waiting.pop(0))
        slots, filled = sum(map(held, running)) * block_tokens, sum(one.cached for one in running)
        moments.append(Moment(len(running), len(waiting), slots, filled))
        unfinished = [one for one in running if one.made < one.request.answer_tokens]
        full = full and len(unfinished) == len(running)
        running = unfinished
    return moments


@dataclass
class _Place:
    """A request on its way: how many tokens of its answer there are."""

    request: Request
    made: int = 1

    @property
    def cached(self) -> int:
        return self.request.prompt_tokens + self.made - 1
