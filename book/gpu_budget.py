"""How long each process of a GPU check may take, so that the whole keeps to its time.

A part gets its share of the time that is left when it begins; what it does not use, the parts after
it may. Within a part no process gets all that is left while others wait, so that one that hangs
leaves them time.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

SHORTEST_S = 1.0  # less is no time to begin anything
MOST = 0.7  # of what is left to a part, while others of it wait


class Budget:
    """Hands out limits to the processes of parts, as they begin one after the other."""

    def __init__(
        self,
        seconds: float,
        parts: Iterable[str],
        shares: Mapping[str, float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``parts`` names the part of each process that will ask; ``shares`` weighs the parts."""
        self._clock = clock
        self._end_s = clock() + seconds
        self._parts = list(parts)
        self._shares = shares
        self._ends_s: dict[str, float] = {}  # of the parts that have begun
        self._waiting = Counter(self._parts)  # processes that have not begun
        self._lock = threading.Lock()

    def limit_s(self, part: str) -> float:
        """Return the seconds for the next process of ``part``; 0 when its time is over."""
        with self._lock:
            now = self._clock()
            if part not in self._ends_s:
                self._begin(part, now)
            left = self._ends_s[part] - now
            self._waiting[part] -= 1
            return 0.0 if left < SHORTEST_S else left * (MOST if self._waiting[part] else 1)

    def _begin(self, part: str, now: float) -> None:
        waiting = set(self._parts) - set(self._ends_s)
        share = self._shares[part] / sum(self._shares[name] for name in waiting)
        self._ends_s[part] = now + (self._end_s - now) * share
