"""The ladder: one model's decode step, rung by rung faster, each held against the one below it.

``rows`` has the matrix-times-one-row kernel, ``compiling`` makes one program of a step, ``rungs``
are the loops themselves, ``agreement`` says whether a rung is exact, ``contestants`` lets other
engines take part. ``bench`` times them.
"""

from inside_generate.ladder.agreement import Agreement, agreement, forced, free
from inside_generate.ladder.rungs import (
    Compiled,
    Dynamic,
    Int8,
    NoCache,
    Rung,
    RungUnavailable,
    Static,
    held_bytes,
)

__all__ = [
    "Agreement",
    "Compiled",
    "Dynamic",
    "Int8",
    "NoCache",
    "Rung",
    "RungUnavailable",
    "Static",
    "agreement",
    "forced",
    "free",
    "held_bytes",
]
