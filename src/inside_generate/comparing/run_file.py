"""The file of a run, as any engine may have written it: from disk to a ``Run``.

What it knows: which keys a comparison can use, in the course's form (``data/run.schema.json``) and
in the article's plainer one, and where one file contradicts itself. What is not a run is refused in
one line. What it leaves to others: the reading of files (``json_file``) and of single values
(``run_fields``), and whether two runs agree (``compare``). It needs neither torch nor a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from inside_generate.comparing.json_file import read_json
from inside_generate.comparing.run_fields import Fields, Scored, kind, not_numbers, shortened

UNDERSTOOD = 1  # the schema_version that this module reads; a file without one is read as it is
PROMISED = ("input_ids", "top_k", "generated_token_ids", "generated_text", "stop_reason", "steps")
CONTEXT = ("model_id", "revision", "dtype", "device", "device_name", "gpu_name", "torch_version",
           "cuda_version", "transformers_version", "python_version")  # fmt: skip
MOST_AXES = 8  # of a shape
SIZES = ("input_shape", "mask_length", "cache_length")


@dataclass(frozen=True)
class RunStep:
    """What a file says about one generated token."""

    token_id: int
    text: str | None = None
    top_k: tuple[Scored, ...] = ()  # best first; empty where the file gives none
    sizes: dict[str, Any] = field(default_factory=dict)  # those of ``SIZES`` that the file gives


@dataclass(frozen=True)
class Run:
    """What a comparison needs of one file; ``None`` is what the file does not say."""

    prompt_ids: tuple[int, ...] | None
    rendered_prompt: str | None
    top_k: tuple[Scored, ...]  # after prefill
    steps: tuple[RunStep, ...] | None  # one for each generated id
    text: str | None
    stop_reason: str | None
    max_new_tokens: int | None
    context: dict[str, str]  # those of ``CONTEXT`` that the file gives
    remarks: tuple[str, ...]  # odd, read all the same, and worth a word
    faults: tuple[str, ...]  # where the file contradicts itself or holds what is no number


def read_run(path: str | Path) -> dict[str, Any]:
    """Return the JSON object in the file ``path`` once it is known to be a readable run."""
    name = repr(str(path))
    record: dict[str, Any] = read_json(path, name)
    as_run(record, name)
    return record


def run_in(path: str | Path) -> Run:
    """Return the run that the file ``path`` holds."""
    name = repr(str(path))
    return as_run(read_json(path, name), name)


def as_run(record: Any, name: str) -> Run:
    """Return a parsed file as a ``Run``; ``name`` is what messages call the file."""
    fields = Fields(name)
    if not isinstance(record, dict):
        fields.refuse(f"a run is a JSON object, and this is {kind(record)}")
    _check_keys(record, fields)
    prompt_ids = _prompt_ids(record, fields)
    listed = fields.ids(record, "generated_token_ids")
    told = _steps(record, fields)
    top_k = fields.top_k(record, "top_k") or (told[0].top_k if told else ())
    steps = _joined(listed, told, top_k)
    return Run(
        prompt_ids=prompt_ids,
        rendered_prompt=fields.text(record, "rendered_prompt"),
        top_k=top_k,
        steps=steps,
        text=fields.text(record, "generated_text"),
        stop_reason=fields.text(record, "stop_reason"),
        max_new_tokens=fields.count(record, "max_new_tokens"),
        context={key: text for key in CONTEXT if (text := fields.text(record, key)) is not None},
        faults=(
            *_wrong_count(record, fields, "prompt_tokens", prompt_ids),
            *_wrong_count(record, fields, "generated_tokens", steps),
            *_wrong_numbers(record),
            *_steps_against_ids(listed, told),
            *_first_step_against_prefill(told, top_k),
            *not_numbers(record)[:1],
        ),
        remarks=tuple(dict.fromkeys(fields.remarks)),
    )


# --- what is in it --------------------------------------------------------------------------------


def _check_keys(record: Mapping[str, Any], fields: Fields) -> None:
    missing = [key for key in PROMISED if record.get(key) is None]
    version = record.get("schema_version", UNDERSTOOD)
    if isinstance(version, bool) or version != UNDERSTOOD:
        fields.refuse(
            f"schema_version is {shortened(version)}, and this program understands {UNDERSTOOD} "
            "(and files without schema_version, in the article's form)"
        )
    if len(missing) == len(PROMISED):
        fields.refuse(f"this is no run: it has none of the keys {', '.join(PROMISED)}")
    if "schema_version" not in record:
        return
    if missing:
        fields.refuse(
            f"keys of schema_version {UNDERSTOOD} are missing: {', '.join(missing)}; add them, or "
            "leave schema_version out to have compared what is there"
        )


def _prompt_ids(record: Mapping[str, Any], fields: Fields) -> tuple[int, ...] | None:
    """Return the prompt's ids from ``[[…]]`` (the article's form) or ``[…]``."""
    rows = fields.items(record, "input_ids")
    if not rows or not all(isinstance(row, list) for row in rows):
        return fields.ids(record, "input_ids")
    if len(rows) > 1:
        fields.refuse(f"input_ids holds {len(rows)} prompts, and a comparison takes one")
    return fields.ids({"input_ids[0]": rows[0]}, "input_ids[0]")


def _steps(record: Mapping[str, Any], fields: Fields) -> list[RunStep] | None:
    """Return the list ``steps`` in the order of its numbers, where all have one."""
    told = fields.items(record, "steps")
    if told is None:
        return None
    steps = [_step(step, fields, f"steps[{index}]") for index, step in enumerate(told)]
    counts = [fields.count(step, "number", f"steps[{i}].") for i, step in enumerate(told)]
    numbers = [number for number in counts if number is not None]
    if len(numbers) < len(steps) or numbers == sorted(numbers):
        return steps
    fields.remarks.append("the steps do not stand in the order of their numbers: sorted")
    return [steps[index] for index in sorted(range(len(steps)), key=numbers.__getitem__)]


def _wrong_numbers(record: Mapping[str, Any]) -> list[str]:
    """Say where the steps' numbers leave one out or name one twice; they begin with 1 or 0."""
    given = [step.get("number") for step in record.get("steps") or []]
    numbers = [] if None in given else sorted(given)
    if numbers and numbers[0] > 1:
        return [f"the first number of the steps is {shortened(numbers[0])}"]
    for number, following in pairwise(numbers):
        if following != number + 1:
            return [f"of the steps, {shortened(following)} follows {shortened(number)}"]
    return []


def _step(step: Any, fields: Fields, place: str) -> RunStep:
    if not isinstance(step, dict):
        fields.refuse(f"{place} must be an object, not {kind(step)}")
    if "token_id" not in step:
        fields.refuse(f"{place} has no token_id")
    return RunStep(
        token_id=fields.id(step["token_id"], f"{place}.token_id"),
        text=fields.text(step, "text", f"{place}."),
        top_k=fields.top_k(step, "top_k", f"{place}."),
        sizes={key: step[key] for key in SIZES if _is_size(step.get(key))},
    )


def _is_size(value: Any) -> bool:
    parts = value if isinstance(value, list) else [value]
    return len(parts) <= MOST_AXES and all(
        isinstance(part, int) and not isinstance(part, bool) for part in parts
    )


def _joined(
    listed: tuple[int, ...] | None, told: list[RunStep] | None, top_k: tuple[Scored, ...]
) -> tuple[RunStep, ...] | None:
    """Return a step for each generated id: the file's own step where there is one for this id."""
    if listed is None and told is None:
        return None
    steps = list(told or []) if listed is None else _bare_steps(listed)
    for index, step in enumerate((told or [])[: len(steps)]):
        if step.token_id == steps[index].token_id:
            steps[index] = step
    if steps:
        steps[0] = replace(steps[0], top_k=top_k)
    return tuple(steps)


def _bare_steps(token_ids: tuple[int, ...]) -> list[RunStep]:
    """Return steps of which nothing but the id is known: one object for each id, however long."""
    bare = {token_id: RunStep(token_id) for token_id in set(token_ids)}
    return [bare[token_id] for token_id in token_ids]


def _steps_against_ids(listed: tuple[int, ...] | None, told: list[RunStep] | None) -> list[str]:
    if listed is None or told is None:
        return []
    for number, (token_id, step) in enumerate(zip(listed, told, strict=False), start=1):
        if token_id != step.token_id:
            return [
                f"token {number} is {token_id} in generated_token_ids and {step.token_id} in steps"
            ]
    if len(listed) != len(told):
        return [f"generated_token_ids holds {len(listed)} ids and steps holds {len(told)}"]
    return []


def _first_step_against_prefill(told: list[RunStep] | None, top_k: tuple[Scored, ...]) -> list[str]:
    first = told[0].top_k if told else ()
    if not first or [_score(one) for one in first] == [_score(one) for one in top_k]:
        return []
    return ["top_k, after prefill, is not the top_k of the first step"]


def _score(one: Scored) -> tuple[int, str]:
    return one.token_id, repr(one.logit)  # as text, so that NaN equals NaN


def _wrong_count(
    record: Mapping[str, Any], fields: Fields, key: str, ids: tuple[Any, ...] | None
) -> list[str]:
    said = fields.count(record, key)
    if said is None or ids is None or said == len(ids):
        return []
    return [f"{key} is {shortened(said)}, but there are {len(ids)} ids"]
