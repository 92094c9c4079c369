"""What the player asks before it shows, at up to four steps of a run.

Knows the player's plain data and nothing else. A question belongs to a step and is asked before
that step is seen; it has answers to choose from, the right one's index, and a sentence that says
why. Each comes from the run itself, so none can be wrong about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Data = Mapping[str, Any]
AT_MOST = 4  # answers to a question


def questions(data: Data) -> list[dict[str, Any]]:
    """Return the questions of a run, by step, at most one for each."""
    steps = data["steps"]
    asked = [first_token(data)]
    if len(steps) > 1:
        asked += [first_decode_step(data)] if len(steps) > 2 else []
        asked.append(what_ends_it(data))
    taken = {one["step"] for one in asked if one}
    asked.append(closest_choice(data, taken))
    return sorted((one for one in asked if one), key=lambda one: int(one["step"]))


def first_token(data: Data) -> dict[str, Any] | None:
    """Ask for token 1 among the best candidates; ``None`` where there are not two."""
    step = data["steps"][0]
    options = _distinct(step["candidates"][:AT_MOST])
    if len(options) < 2 or not any(one["chosen"] for one in options):
        return None
    options.sort(key=lambda one: int(one["id"]))  # not best first: that would give it away
    why = "Only the model's scores decide it: the last row of logits gives one to every token."
    taken = next(one for one in options if one["chosen"])
    if any(one["logit"] == taken["logit"] for one in options if one is not taken):
        why = "The last row of logits gives the token taken and another one the same score."
    return _question(1, "Prefill comes next. Which token will begin the answer?", options, why)


def first_decode_step(data: Data) -> dict[str, Any]:
    """Ask what goes into the model for token 2."""
    length = data["length"]
    texts = [
        f"the prompt and token 1: [1, {length + 1}]",
        "token 1 alone: [1, 1]",
        f"the prompt again: [1, {length}]",
    ]
    why = (
        "The keys and values of the prompt are in the cache already. "
        f"Token 1 joins them: {length + 1} tokens."
    )
    return _stated(2, "What goes into the model to make token 2?", texts, 1, why)


def closest_choice(data: Data, taken: set[int]) -> dict[str, Any] | None:
    """Ask for the token at the step whose two best logits lie closest, of the steps left."""
    margins = {
        number: step["candidates"][0]["logit"] - step["candidates"][1]["logit"]
        for number, step in enumerate(data["steps"], start=1)
        if number not in taken and _is_choice_of_two(step["candidates"])
    }
    if not margins:
        return None
    number = min(margins, key=lambda one: margins[one])
    best = data["steps"][number - 1]["candidates"][:2]
    options = sorted(best, key=lambda one: int(one["id"]))
    ask = f"Two tokens are close here. Which one becomes token {number}?"
    why = f"Their logits differ by {margins[number]:.3g}, the least of the steps without a question"
    why = f"{why}. The better one is taken all the same."
    if not margins[number]:
        why = "Their logits are equal, as rounded numbers can be. No score is left to decide."
        why += " The lower id is taken." if options[0] is best[0] else ""
    return _question(number, ask, options, why)


def what_ends_it(data: Data) -> dict[str, Any]:
    """Ask for the reason why the run is over after its last token."""
    number, limit = len(data["steps"]), data["max_new_tokens"]
    texts = [
        "the model, by an end-of-sequence token",
        f"the limit of {limit} new tokens",
    ]
    if data["ended_by_eos"]:
        why = "The model scores it like any other token; only the loop gives it a meaning."
    else:
        why = "The model has not said that it is done: the loop stops it, in the middle if need be."
    ask = f"The run is over after token {number}. What ends it?"
    return _stated(number, ask, texts, 0 if data["ended_by_eos"] else 1, why)


def _is_choice_of_two(candidates: list[dict[str, Any]]) -> bool:
    """Whether there are two that differ to the eye, and the better one was chosen."""
    return len(_distinct(candidates[:2])) == 2 and candidates[0]["chosen"]


def _distinct(candidates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the candidates, of those that look alike the first only."""
    return list({one["text"]: one for one in reversed(candidates)}.values())[::-1]


def _question(number: int, ask: str, options: list[dict[str, Any]], why: str) -> dict[str, Any]:
    right = next(index for index, one in enumerate(options) if one["chosen"])
    return _stated(number, ask, [f"“{one['text']}”" for one in options], right, why)


def _stated(number: int, ask: str, texts: list[str], right: int, why: str) -> dict[str, Any]:
    return {"step": number, "ask": ask, "answers": texts, "right": right, "why": why}
