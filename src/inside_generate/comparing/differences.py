"""Where two sequences, two texts or two prompts first differ, in words."""

from __future__ import annotations

from collections.abc import Sequence

AROUND = 24  # characters that are shown on either side of a difference


def first_difference(ours: Sequence[object], theirs: Sequence[object]) -> int | None:
    """Return the first index at which two sequences differ, an end included; ``None`` if none."""
    for index, (our, their) in enumerate(zip(ours, theirs, strict=False)):
        if our != their:
            return index
    return None if len(ours) == len(theirs) else min(len(ours), len(theirs))


def parted_texts(what: str, ours: str | None, theirs: str | None) -> str | None:
    """Return where two texts part, in words; ``None`` where they do not, or one is missing."""
    if ours is None or theirs is None or (index := first_difference(ours, theirs)) is None:
        return None
    around = slice(max(0, index - AROUND), index + AROUND)
    return (
        f"{what}, parted at character {index}, here with its surroundings: "
        f"{ours[around]!r} in the reference, "
        f"{theirs[around]!r} in the other"
    )


def common_mistake(ours: Sequence[int], theirs: Sequence[int]) -> list[str]:
    """Name the usual cause of a prompt that has one id more, or lacks its last ones."""
    if theirs[1:] == ours:
        return ["the other has one id more in front: did its tokenizer add a special token?"]
    if theirs and ours[: len(theirs)] == theirs:
        lost = len(ours) - len(theirs)
        return [f"the other lacks the last {lost} ids: was the generation prompt left out?"]
    return []
