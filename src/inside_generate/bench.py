"""``bench``: the ladder on this machine, each rung in turn, beside what the machine could do.

All answer the same prompt with the same weights. Our rungs run in this process, engines in one of
their own each; they take turns, so that a machine which slows down slows all of them. Medians are
reported, with the smallest and the largest value beside them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from transformers import PreTrainedModel

from inside_generate.ceilings import Ceilings, higher, measure_ceilings
from inside_generate.chat import encode
from inside_generate.environment import describe
from inside_generate.flops import prefill_flops
from inside_generate.guards import check_sizes
from inside_generate.ladder.measuring import (
    Runs,
    check_names,
    failures_into,
    judge,
    line_up,
    measure,
    measure_long_prompt,
)
from inside_generate.ladder.results import ratios, row, spread, times
from inside_generate.models import load
from inside_generate.step_bytes import step_bytes
from inside_generate.stopping import check_limit

PROMPT = "Why is the sky blue?"
SCHEMA_VERSION = 1


def run(
    model: str,
    device: str,
    dtype: str,
    new_tokens: int,
    rounds: int,
    rungs: Sequence[str] | None,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Measure and return everything as one JSON-ready object.

    ``rungs`` names those to run, of ours and of the engines installed; ``None`` takes all.
    """
    names = check_names(rungs)
    check_sizes(1, rounds=rounds)
    check_sizes(2, new_tokens=new_tokens)
    tokenizer, network = load(model, device, dtype)
    inputs = encode(tokenizer, PROMPT, network.device)
    length = inputs["input_ids"].shape[1]
    check_limit(new_tokens, inputs["input_ids"].shape, network.config)
    say("ceilings: what memory and matrix products of this machine reach")
    ceilings = measure_ceilings(network.device, network.dtype)
    not_run: dict[str, str] = {}
    guard = failures_into(not_run, say)
    with ExitStack() as stack:
        ready = line_up(names, network, inputs, new_tokens, say, guard, stack)
        facts = judge(ready, network, inputs, new_tokens, say, guard)
        ready = [one for one in ready if one.name in facts]
        runs = measure(ready, network, inputs, new_tokens, rounds, say, guard)
        ready = [one for one in ready if one.name not in not_run]
        long_length, long_runs = measure_long_prompt(ready, network, rounds, say, guard)
    # Again: a neighbour on the machine may have lowered the first reading.
    ceilings = higher(ceilings, measure_ceilings(network.device, network.dtype))
    rows = [
        row(one, facts[one.name], [found[one.name] for found in runs], ceilings.memory_gb_per_s)
        for one in ready
        if one.name not in not_run
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        **describe(network),
        "threads": torch.get_num_threads(),
        "prompt_tokens": length,
        "new_tokens": new_tokens,
        "rounds": rounds,
        "ceilings": ceilings_record(ceilings),
        "predicted_tpot_ms": predicted_tpot_ms(network, length + new_tokens // 2, ceilings),
        **ratios(runs, rows),
        "generate": times([found["generate"] for found in runs]),
        "long_prompt": long_prompt(long_length, long_runs, network, ceilings),
        "rungs": rows + [{"name": name, "not_run": why} for name, why in not_run.items()],
    }


def ceilings_record(ceilings: Ceilings) -> dict[str, Any]:
    """Return both ceilings under their JSON keys, with every way that was tried."""
    return {
        "memory_gb_per_s": round(ceilings.memory_gb_per_s, 3),
        "memory_way": ceilings.memory_way,
        "memory_ways": rounded(ceilings.ways),
        "matmul_gflop_per_s": round(ceilings.matmul_gflop_per_s, 3),
        "matmul_way": ceilings.matmul_way,
        "matmul_ways": rounded(ceilings.matmul_ways),
    }


def predicted_tpot_ms(model: PreTrainedModel, context: int, ceilings: Ceilings) -> float:
    """Return the milliseconds of a step that only has to read its bytes."""
    return round(1e3 * ceilings.seconds(0, step_bytes(model, context)), 3)


def long_prompt(
    length: int, runs: Runs, model: PreTrainedModel, ceilings: Ceilings
) -> dict[str, Any]:
    """Return TTFT of each reader of the long prompt, and what share of the ceiling ours reaches.

    Counted are the pairs of tokens that the causal mask lets see each other: half of the square.
    """
    ttft = {
        name: spread("ttft_ms", [1000 * found[name].ttft_s for found in runs])
        for name in sorted(runs[-1])
    }
    rate = prefill_flops(model.config, length, causal=True) / ttft["dynamic"]["ttft_ms"] / 1e6
    return {
        "tokens": length,
        "gflop_per_s": round(rate, 2),
        "matmul_fraction": round(rate / ceilings.matmul_gflop_per_s, 4),
        "ttft": ttft,
    }


def rounded(rates: Mapping[str, float]) -> dict[str, float]:
    """Return rates with as many digits as a reader can use."""
    return {way: round(rate, 3) for way, rate in rates.items()}


def card(result: Mapping[str, Any]) -> str:
    """Return the result for a reader: machine, prediction, measurement, gap."""
    ceilings, long = result["ceilings"], result["long_prompt"]
    sizes = f"{result['prompt_tokens']} prompt tokens, {result['new_tokens']} new ones"
    low, high = result["ratio_to_generate_min_max"]
    best = next(one for one in result["rungs"] if one["name"] == result["best_exact"])
    rows = {
        "model": f"{result['model_id']}, {result['dtype']}",
        "machine": f"{result['device']}: {result['device_name']}, {result['threads']} threads",
        "ceilings": f"memory {ceilings['memory_gb_per_s']:.1f} GB/s, "
        f"matrix product {ceilings['matmul_gflop_per_s']:,.0f} GFLOP/s",
        "run": f"{sizes}, medians of {result['rounds']} rounds",
        "predicted": f"{result['predicted_tpot_ms']:.1f} ms a token, if only the bytes counted",
        "measured": f"{best['tpot_ms']:.1f} ms ({best['name']}, the best exact rung of ours), "
        f"{best['tpot_ms'] / result['predicted_tpot_ms']:.2f} times the prediction",
        "ratio": f"{result['ratio_to_generate']:.3f} of generate()'s TPOT for dynamic "
        f"({low:.3f} to {high:.3f})",
        "prefill": f"{long['tokens']} tokens: {long['gflop_per_s']:,.0f} GFLOP/s, "
        f"{long['matmul_fraction']:.0%} of the matrix product",
    }
    lines = [f"{name:<11}{value}" for name, value in rows.items()]
    return "\n".join([*lines, "", *table(result["rungs"])])


def table(rungs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the ladder as lines of text."""
    lines = [
        f"{'rung':<13}{'exact':<7}{'TTFT ms':>8}{'TPOT ms':>9}{'tokens/s':>10}"
        f"{'GB/s':>7}{'ceiling':>9}{'first call s':>14}{'MiB':>7}"
    ]
    exact = {True: "yes", False: "no", None: "?"}
    for one in rungs:
        if "not_run" in one:
            lines.append(f"{one['name']:<13}not run: {one['not_run']}")
            continue
        rate, share, held = one["gb_per_s"], one["bandwidth_fraction"], one["memory_mib"]
        lines.append(
            f"{one['name']:<13}{exact[one['exact']]:<7}{one['ttft_ms']:>8.1f}{one['tpot_ms']:>9.1f}"
            f"{one['tokens_per_s']:>10.1f}{'–' if rate is None else format(rate, '.1f'):>7}"
            f"{'–' if share is None else format(share, '.0%'):>9}{one['first_call_s']:>14.1f}"
            f"{held:>7.0f}"
        )
    return lines


def last_line(result: Mapping[str, Any]) -> str:
    """Return the result for a program: one line of JSON."""
    return json.dumps(result, ensure_ascii=False, allow_nan=False)
