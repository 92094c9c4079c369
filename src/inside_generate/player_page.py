"""The player's HTML: an element with its data, and a table that says the same without a script.

Knows the player's plain data (``player.player_data``) and where its script and style lie. It
imports no torch, so that a page can be made without one. Text of prompts and tokens comes from
anyone: it is escaped in the table, and cannot end the element that holds the data.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from inside_generate.guards import check_sizes

Data = Mapping[str, Any]
PARTS = ("player_views.js", "player.js")
HEAD = ("token", "phase", "input", "mask", "KV cache", "chosen", "probability", "ms")


def player_html(runs: Sequence[Data], first: int = 0) -> str:
    """Return a ``<generation-player>`` with these runs to choose from, ``first`` shown first."""
    check_sizes(first=first)
    if first >= len(runs):
        raise ValueError(f"first must be one of 0 to {len(runs) - 1}, not {first}")
    tables = "".join(map(_table, runs))
    data = safe_json({"runs": list(runs), "first": first})
    return (
        f'<generation-player><script type="application/json">{data}</script>'
        f"{tables}</generation-player>"
    )


def script() -> str:
    """Return the player's whole program, its style included, ready for a ``<script>``."""
    style = f"globalThis.insideGenerate.playerStyle = {safe_json(_file('player.css'))};\n"
    opening = "globalThis.insideGenerate = globalThis.insideGenerate || {};\n"
    return opening + style + "".join(map(_file, PARTS))


def safe_json(value: Any) -> str:
    """Return JSON that no HTML parser takes for a tag. Numbers that JSON lacks are refused."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def _file(name: str) -> str:
    folder = resources.files("inside_generate").joinpath("data", "player")
    return folder.joinpath(name).read_text("utf-8")


def _table(run: Data) -> str:
    """Return the steps of one run as a folded table."""
    total = len(run["steps"])
    ended = "an end-of-sequence token" if run["ended_by_eos"] else "the limit"
    title = f"{run['prompt']} – step by step, {total} token{'' if total == 1 else 's'}"
    head = "".join(f'<th scope="col">{name}</th>' for name in HEAD)
    rows = "".join(_row(number, step) for number, step in enumerate(run["steps"], start=1))
    text = "".join(step["adds"] for step in run["steps"])
    return (
        f"<details><summary>{html.escape(title)}</summary>"
        f"<p>Recorded with {html.escape(run['made_by'])}. Prompt: {run['length']} tokens. "
        f"Ended by {ended}. Answer: {html.escape(text)}</p>"
        f'<div style="overflow-x:auto" tabindex="0" role="region" aria-label="steps of the run">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _row(number: int, step: Data) -> str:
    chosen = [one["probability"] for one in step["candidates"] if one["chosen"]]
    share = f"{100 * chosen[0]:.1f} %" if chosen and chosen[0] is not None else "–"
    cells = (
        str(number),
        step["phase"],
        str(step["input_shape"]),
        str(step["mask_length"]),
        str(step["cache_length"]),
        step["token"]["text"],
        share,
        f"{1000 * step['seconds']:.0f}",
    )
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
