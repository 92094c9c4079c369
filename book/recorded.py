"""What was measured for a room and for a stick, as sections of the pages about them.

Reads the records in `book/workshop/results` and nothing else: no number of a machine is typed into
a page. `pages.py` puts the sections at the end of their pages.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path("book/workshop/results")
MIB, MB = 1024**2, 1_000_000
IDLE = 1.0  # a load below one process


def sections(root: Path) -> dict[Path, str]:
    """The text that belongs to the end of each page, by the page's place; none without records."""
    rooms = [read(path) for path in sorted((root / RESULTS).glob("hub-*.json"))]
    sticks = [read(path) for path in sorted((root / RESULTS).glob("stick-*.json"))]
    found = {}
    if rooms:
        found[Path("book/jupyterhub.md")] = "\n## Rooms that were measured\n" + "".join(
            map(room_text, rooms)
        )
    if sticks:
        found[Path("book/offline.md")] = sticks_text(sticks)
    return found


def read(path: Path) -> dict[str, Any]:
    """A record, as it was written."""
    record: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return record


def room_text(record: Mapping[str, Any]) -> str:
    """One rehearsal: what the learners took, least and most, and what all took together."""
    learners = record["learners"]
    machine = (
        f"{record['device_name']}, {record['cores']} cores, "
        f"{record['memory_bytes'] / 1024**3:.0f} GiB of memory"
    )
    rows = [
        row("until the server answered, s", [one["server_start_s"] for one in learners]),
        row("for the chapter, s", [one["chapter_s"] for one in learners]),
        row("peak memory as RSS, MiB", [one["rss_bytes"] / MIB for one in learners]),
        row("peak memory as PSS, MiB", [one["pss_bytes"] / MIB for one in learners]),
        row("of it weights, MiB", [one["weights_mapped"]["Pss"] / MIB for one in learners]),
    ]
    alone = sum(one["rss_bytes"] for one in learners)
    return table(
        f"\n### {len(learners)} learners, {record['model']}\n\n"
        f"`{record['notebook']}` at the same time on {machine}; {record['date'][:10]}, torch "
        f"{record['versions']['torch']}. {load_text(record['load_before'])}",
        ["a learner took", "at least", "at most"],
        rows,
        f"All learners together took {mib(record['together_pss_bytes'])} MiB at most; added up "
        f"as RSS it would look like {mib(alone)} MiB. The weights are one file of "
        f"{mib(record['weights_bytes'])} MiB. Hub, proxy and services took "
        f"{mib(record['hub_pss_bytes'])} MiB.",
    )


def load_text(load: float) -> str:
    """How busy the machine was before a rehearsal, and what that means for its seconds."""
    if load < IDLE:
        return f"The machine was all but idle when it began (load {load})."
    return f"Other work went on when it began (load {load}): take the seconds for an upper end."


def sticks_text(records: Iterable[Mapping[str, Any]]) -> str:
    """The sizes of the folders that were packed, a table for each."""
    intro = "Sizes in MB (powers of ten, as on a stick's label), from the record of the packing."
    return f"\n## Folders that were packed\n\n{intro}\n" + "".join(map(stick_text, records))


def stick_text(record: Mapping[str, Any]) -> str:
    """The sizes of one folder, part by part."""
    parts = record["bytes"]
    sizes = [*parts.items(), ("**the folder**", sum(parts.values()))]
    sizes += [("packages, once installed", record["packages_unpacked_bytes"])]
    return table(
        f"\n### {record['system']} {record['machine']}, Python {record['python']}, "
        f"{record['model']}\n\n{record['packages']} packages with torch {record['torch']}; packed "
        f"on {record['made'][:10]} in {record['seconds']} s.",
        ["part", "MB"],
        [f"| {name} | {count / MB:,.0f} |" for name, count in sizes],
        "",
    )


def row(name: str, values: list[float]) -> str:
    """One line of a table: the least and the most of some values."""
    return f"| {name} | {min(values):,.0f} | {max(values):,.0f} |"


def table(before: str, head: list[str], rows: list[str], after: str) -> str:
    """A Markdown table between two paragraphs."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *rows]
    return "\n".join([before, "", *lines, "", after, ""])


def mib(count: float) -> str:
    """Bytes in MiB, without decimals."""
    return f"{count / MIB:,.0f}"
