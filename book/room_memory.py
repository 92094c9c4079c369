"""How much memory the processes of a room take, and how much of it is one copy for all.

Linux says both: RSS counts a page for every process that maps it, PSS divides it among them, so
that only the sum of PSS is what the machine really gives.
"""

import re
import threading
from pathlib import Path

import psutil

FIELD = re.compile(r"^(Rss|Pss|Private_Dirty):\s+(\d+) kB", flags=re.MULTILINE)
MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ .*$", flags=re.MULTILINE)


def rollup(pid: int) -> dict[str, int]:
    """Rss and Pss of a process in bytes; nothing where it has ended or may not be looked at."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8")
    except OSError:
        return {}
    return {name: int(count) * 1024 for name, count in FIELD.findall(text)}


def of_file(pid: int, name: str) -> dict[str, int]:
    """Rss, Pss and Private_Dirty of what a process has mapped of the file called `name`."""
    try:
        text = Path(f"/proc/{pid}/smaps").read_text("utf-8")
    except OSError:
        return {}
    heads = [*MAPPING.finditer(text)]
    ends = [head.start() for head in heads[1:]] + [len(text)]
    total = {"Rss": 0, "Pss": 0, "Private_Dirty": 0}
    for head, end in zip(heads, ends, strict=True):
        if head[0].endswith(f"/{name}"):
            for field, count in FIELD.findall(text[head.end() : end]):
                total[field] += int(count) * 1024
    return total


class Room:
    """Samples each learner's processes once a second, and keeps the most that was seen."""

    def __init__(self, hub: psutil.Process, homes: Path) -> None:
        self.hub, self.homes = hub, homes
        self.most: dict[str, dict[str, int]] = {}  # learner -> bytes
        self.most_together = 0  # sum of PSS of all learners at one moment
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Room":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def kernels(self) -> dict[str, list[int]]:
        """The processes of each learner's kernels."""
        return {name: [pid for pid, kernel in found if kernel] for name, found in self._all()}

    def _all(self) -> list[tuple[str, list[tuple[int, bool]]]]:
        found: dict[str, list[tuple[int, bool]]] = {}
        for child in self.hub.children(recursive=True):
            try:
                home = Path(child.environ().get("HOME", ""))
                kernel = any("ipykernel" in word for word in child.cmdline())
            except psutil.Error:  # it ended between being listed and being asked
                continue
            if home.parent == self.homes:
                found.setdefault(home.name, []).append((child.pid, kernel))
        return sorted(found.items())

    def _watch(self) -> None:
        while not self._stop.wait(1):
            self.sample()

    def sample(self) -> None:
        """Look once."""
        together = 0
        for name, processes in self._all():
            sizes = [rollup(pid) for pid, _ in processes]
            rss = sum(size.get("Rss", 0) for size in sizes)
            pss = sum(size.get("Pss", 0) for size in sizes)
            most = self.most.setdefault(name, {"rss": 0, "pss": 0})
            most["rss"], most["pss"] = max(most["rss"], rss), max(most["pss"], pss)
            together += pss
        self.most_together = max(self.most_together, together)
