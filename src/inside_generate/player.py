"""The generation player: one run as something to step through, in a notebook or on a page.

This module makes a ``Trace`` into plain data, and ``Player`` shows it. The questions that the
player asks are in ``player_questions.py``, the HTML in ``player_page.py``; what is drawn at each
step is the business of the JavaScript in ``data/player``.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from typing import Any

from inside_generate.errors import in_a_line, shown
from inside_generate.player_page import player_html, script
from inside_generate.player_questions import questions
from inside_generate.plots.token_strip import visible
from inside_generate.stopping import EOS
from inside_generate.tokens import Spelling
from inside_generate.trace import Candidate, Step, Trace

MICROSECONDS = 6  # decimals of a second that are worth keeping


class Player:
    """Shows one run, step by step, where HTML is shown: JupyterLab, VS Code, a page of the book.

    ``about`` is the run's record with its model and machine (``run_record``), for the line that
    names them.
    """

    def __init__(self, trace: Trace, about: Mapping[str, Any] | None = None) -> None:
        self.data = player_data(trace, about)

    def _repr_html_(self) -> str:
        return f"{player_html([self.data])}\n<script>{script()}</script>"

    def __repr__(self) -> str:
        total = len(self.data["steps"])
        return f"Player: {total} token{'s' * (total != 1)} after a prompt of {self.data['length']}"


def player_data(trace: Trace, about: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return all that the player shows of a run, ready for JSON.

    Texts of single tokens have signs for what has no shape of its own, and an unfinished
    character's bytes as ``\\xNN``. The text so far comes in pieces, ``adds``: what is settled by
    each token, joined, is the answer. ``pending`` holds the bytes of a character that is not yet
    whole. Seconds are as recorded, bytes as the config says; what the record lacks is ``None``.
    """
    if not isinstance(trace, Trace):
        raise ValueError(f"a Trace is wanted here, as generate() returns it, not {shown(trace)}")
    if about is not None and not isinstance(about, Mapping):
        raise ValueError(
            f"about must be a run's record, as run_record() gives it, not {shown(about)}"
        )
    try:
        data = _data(trace, about or {})
        player_html([data]).encode()  # no page can hold NaN, or half a surrogate pair
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"this run cannot be shown, its record is damaged: {type(error).__name__}: "
            f"{in_a_line(error)}; record it anew"
        ) from error
    return data


def _data(trace: Trace, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a run; a record that was changed by hand may raise anything."""
    spelt = {one.token_id: one for one in trace.spellings or ()}
    steps = [
        {**_step(step, trace, spelt), "adds": adds, "pending": pending}
        for step, (adds, pending) in zip(trace.steps, _text_so_far(trace, spelt), strict=True)
    ]
    data = {
        "prompt": _question(trace),
        "length": len(trace.prompt_ids),
        "prompt_tokens": [_token(token_id, spelt) for token_id in trace.prompt_ids],
        "made_by": _made_by(trace, about),
        "ended_by_eos": trace.stop_reason == EOS,
        "max_new_tokens": trace.max_new_tokens,
        "ttft_s": round(trace.ttft_s, MICROSECONDS),
        "tpot_s": None if trace.tpot_s is None else round(trace.tpot_s, MICROSECONDS),
        "kv_bytes_a_token": trace.kv_bytes_a_token,
        "steps": steps,
    }
    return {**data, "questions": questions(data)}


def _step(step: Step, trace: Trace, spelt: Mapping[int, Spelling]) -> dict[str, Any]:
    each = trace.kv_bytes_a_token
    return {
        "phase": step.phase,
        "token": _token(step.token_id, spelt, step.text),
        "input_shape": list(step.input_shape),
        "logits_shape": list(step.logits_shape),
        "mask_length": step.mask_length,
        "cache_length": step.cache_length,
        "cache_bytes": None if each is None else each * step.cache_length,
        "seconds": round(step.seconds, MICROSECONDS),
        "candidates": [_candidate(one, step.token_id, spelt) for one in step.top_k],
    }


def _candidate(one: Candidate, chosen: int, spelt: Mapping[int, Spelling]) -> dict[str, Any]:
    return {
        **_token(one.token_id, spelt, one.text),
        "logit": one.logit,
        "probability": one.probability,
        "chosen": one.token_id == chosen,
    }


def _token(token_id: int, spelt: Mapping[int, Spelling], text: str = "") -> dict[str, Any]:
    """Return what is to be seen of one id; ``text`` stands in where its bytes are not known."""
    if token_id not in spelt:
        return {"id": token_id, "text": visible(text), "partial": False, "control": False}
    raw = bytes.fromhex(spelt[token_id].utf8)
    text = raw.decode("utf-8", errors="backslashreplace")
    return {
        "id": token_id,
        "text": visible(text),
        "partial": text.encode() != raw,
        "control": spelt[token_id].control,
    }


def _text_so_far(trace: Trace, spelt: Mapping[int, Spelling]) -> Iterator[tuple[str, str]]:
    """Yield for each token the text that it settles, and the bytes that wait for more, in hex."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for step in trace.steps:
        if not spelt:
            yield ("" if step.token_id in trace.eos_token_ids else step.text), ""
            continue
        spelling = spelt[step.token_id]
        adds = "" if spelling.control else decoder.decode(bytes.fromhex(spelling.utf8))
        yield adds, decoder.getstate()[0].hex(" ").upper()


def _question(trace: Trace) -> str:
    """Return what the user said last."""
    if isinstance(trace.prompt, str):
        return trace.prompt
    said = trace.prompt[-1].get("content")
    return said if isinstance(said, str) else str(said)


def _made_by(trace: Trace, about: Mapping[str, Any]) -> str:
    """Return one line: model, number format, processor and day, as far as they are known."""
    place = about.get("device_name") or trace.device
    parts = [about.get("model_id"), f"{trace.dtype} on {place}", str(about.get("date", ""))[:10]]
    return ", ".join(part for part in parts if part)
