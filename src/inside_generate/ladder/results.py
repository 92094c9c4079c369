"""What ``bench`` found, in the one form in which it is saved, shown and compared.

The form is fixed by ``data/bench.schema.json``. Recorded results lie in the course's folder
``book/results``; each says on what and when it was measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from statistics import median
from typing import Any

from inside_generate.ladder.agreement import FreeRun
from inside_generate.ladder.contestants import Contestant

Result = dict[str, Any]
RECORDED = Path(__file__).resolve().parents[3] / "book" / "results"


def row(
    one: Contestant, facts: Mapping[str, Any], runs: Sequence[FreeRun], memory_gb_per_s: float
) -> Result:
    """Return the JSON object of one rung."""
    found = {"name": one.name, "why": one.why, "version": one.version, **facts, **times(runs)}
    rate = None
    if one.bytes_per_token is not None:
        rate = one.bytes_per_token / found["tpot_ms"] / 1e6  # bytes a ms → GB a second
    return {
        **found,
        "bytes_per_token": one.bytes_per_token,
        "gb_per_s": None if rate is None else round(rate, 3),
        "bandwidth_fraction": None if rate is None else round(rate / memory_gb_per_s, 4),
    }


def times(runs: Sequence[FreeRun]) -> Result:
    """Return medians and spread of some runs, in milliseconds."""
    tpot_ms = [1000 * run.tpot_s for run in runs]
    return {
        **spread("ttft_ms", [1000 * run.ttft_s for run in runs]),
        **spread("tpot_ms", tpot_ms),
        "tokens_per_s": round(1000 / median(tpot_ms), 2),
    }


def spread(name: str, values: Sequence[float]) -> Result:
    """Return the median under ``name`` and, beside it, the smallest and the largest value."""
    low, middle, high = (round(x, 4) for x in (min(values), median(values), max(values)))
    return {name: middle, f"{name}_min_max": [low, high]}


def ratios(runs: Sequence[Mapping[str, FreeRun]], rungs: Sequence[Result]) -> Result:
    """Return how the TPOTs compare, each the median of the rounds' own ratios.

    ``None`` where the other one has not run to the end.
    """

    measured = {"generate", *(rung["name"] for rung in rungs if "not_run" not in rung)}

    def of(one: str, other: str, name: str) -> Result:
        if other not in measured:
            return {name: None, f"{name}_min_max": None}
        return spread(name, [found[one].tpot_s / found[other].tpot_s for found in runs])

    best = best_exact(rungs)
    result = {**of("dynamic", "generate", "ratio_to_generate"), "best_exact": best}
    for other in ("dynamic", "llama.cpp", "vllm"):
        result |= of(best, other, f"best_exact_over_{other.replace('.', '_')}")
    return result


def best_exact(rungs: Sequence[Result]) -> str:
    """Return the fastest of our own rungs that is exact."""
    ours = [rung for rung in rungs if rung.get("exact") and rung["version"] is None]
    best: Result = min(ours, key=lambda rung: rung["tpot_ms"])
    return str(best["name"])


def schema() -> Result:
    """Return the JSON schema of a result."""
    found: Result = json.loads(
        resources.files("inside_generate").joinpath("data", "bench.schema.json").read_text("utf-8")
    )
    return found


def recorded(folder: Path = RECORDED) -> dict[str, Result]:
    """Return the results that the course keeps, by the name of their file; none elsewhere."""
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    return {path.stem: json.loads(path.read_text("utf-8")) for path in paths}
