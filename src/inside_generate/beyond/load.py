"""Putting a server under load: some clients at once, each with one question, and what they saw.

Knows how waiting is summed up: medians, percentiles, tokens per second. The requests are few and
short by design; this is no tool to try how much a server stands.
"""

from __future__ import annotations

import math
import statistics
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from inside_generate.beyond.client import Answer, ask, models
from inside_generate.chat import Messages
from inside_generate.guards import check_numbers, check_sizes

MOST_CLIENTS = 64


@dataclass(frozen=True)
class Load:
    """What some clients saw that asked at the same time."""

    answers: tuple[Answer, ...]

    @property
    def clients(self) -> int:
        """How many asked."""
        return len(self.answers)

    @property
    def tokens(self) -> int:
        """Tokens of all answers together, as the server counts, else pieces."""
        return sum(answer.completion_tokens or len(answer.pieces) for answer in self.answers)

    @property
    def seconds(self) -> float:
        """From the first request to the last piece of the last answer."""
        start = min(answer.sent_s for answer in self.answers)
        return max(answer.sent_s + answer.arrivals_s[-1] for answer in self.answers) - start

    @property
    def tokens_per_s(self) -> float:
        """Throughput of all answers together."""
        return self.tokens / self.seconds

    @property
    def ttft_s(self) -> tuple[float, ...]:
        """Each client's time to its first piece, in rising order."""
        return tuple(sorted(answer.ttft_s for answer in self.answers))

    @property
    def gaps_s(self) -> tuple[float, ...]:
        """All clients' inter-token latencies, in rising order."""
        return tuple(sorted(gap for answer in self.answers for gap in answer.gaps_s))


def under_load(
    server: str,
    conversations: Sequence[Messages],
    max_tokens: int | Sequence[int],
    timeout_s: float = 120.0,
) -> Load:
    """Ask one question for each conversation, all at once, and return what was seen.

    ``max_tokens`` is one limit for all of them, or a sequence with one for each. Where one of them
    fails the others are waited for, and its error is raised.
    """
    check_sizes(1, clients=len(conversations))
    if len(conversations) > MOST_CLIENTS:
        raise ValueError(f"at most {MOST_CLIENTS} clients, not {len(conversations)}")
    limits = _limits(len(conversations), max_tokens)
    name, together = models(server)[0], threading.Barrier(len(conversations))

    def one(messages: Messages, limit: int) -> Answer:
        together.wait(timeout_s)
        return ask(server, messages, limit, model=name, timeout_s=timeout_s)

    with ThreadPoolExecutor(len(conversations)) as pool:
        return Load(tuple(pool.map(one, conversations, limits)))


def _limits(clients: int, max_tokens: int | Sequence[int]) -> list[int]:
    """Return a limit for each client, or raise ``ValueError``."""
    limits = list(max_tokens) if isinstance(max_tokens, Sequence) else [max_tokens] * clients
    if len(limits) != clients:
        raise ValueError(f"{clients} clients need as many limits, not {len(limits)}")
    for limit in limits:
        check_sizes(1, max_tokens=limit)
    return limits


def median(values: Sequence[float]) -> float:
    """Return the middle of some times, or raise where there are none."""
    return statistics.median(check_numbers("values", values, low=0))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest of the values that at least ``share`` (0 to 1) of them do not exceed."""
    ordered = sorted(check_numbers("values", values, low=0))
    (share,) = check_numbers("share", [share], low=0, high=1)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]
