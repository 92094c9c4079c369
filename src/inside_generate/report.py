"""``run``: one answer, printed stage by stage, and its JSON file.

Knows how a run is shown in a terminal; the run itself is ``loop.generate``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from inside_generate.chat import as_messages, encode, render_chat
from inside_generate.device import choose_dtype
from inside_generate.environment import provenance
from inside_generate.loop import cached_keys_and_values, generate
from inside_generate.models import load
from inside_generate.record import run_record, write_json
from inside_generate.trace import Candidate, Step, Trace

Say = Callable[[str], None]


def run(
    prompt: str,
    model: str,
    device: str,
    dtype: str,
    max_new_tokens: int,
    output: str | os.PathLike[str],
    say: Say,
) -> Trace:
    """Load a model, answer ``prompt`` greedily, show each stage and write the JSON file."""
    tokenizer, network = load(model, device, dtype)
    heading("what runs", say)
    say(provenance(network))
    say(f"dtype    {choose_dtype(dtype, network.device)[1]}")
    show_inputs(tokenizer, prompt, say)
    outputs: list[Any] = []  # what the latest forward has returned

    def watch(*call: Any) -> None:
        outputs[:] = call[-1:]

    def show(step: Step) -> None:
        show_step(step, network, outputs[0], say)

    hook = network.register_forward_hook(watch)
    try:
        trace = generate(
            network,
            tokenizer,
            prompt,
            max_new_tokens=max_new_tokens,
            keep_all_logits=True,  # the file states the shape of the logits of all positions
            on_step=show,
        )
    finally:
        hook.remove()
    show_end(trace, say)
    say(f"saved        {write_json(run_record(trace, network), Path(output))}")
    return trace


def show_inputs(tokenizer: PreTrainedTokenizerBase, prompt: str, say: Say) -> None:
    """Show what happens before the model: messages, rendered prompt, ids."""
    heading("messages", say)
    for turn in as_messages(prompt):
        say(str(turn))
    heading("rendered prompt", say)
    say(render_chat(tokenizer, prompt))
    inputs = encode(tokenizer, prompt)
    ids = inputs["input_ids"][0].tolist()
    heading("inputs", say)
    for name, tensor in inputs.items():
        say(f"{name:<15}{shape(tensor.shape)}  {abridged(tensor[0].tolist())}")
    heading("token → id", say)
    for number, token_id in enumerate(ids, start=1):
        say(f"{number:>4}  {tokenizer.convert_ids_to_tokens(token_id)!r} → {token_id}")


def show_step(step: Step, model: PreTrainedModel, output: Any, say: Say) -> None:
    """Show one token: in full after prefill, in a line for each decode step.

    ``output`` is what the model's forward has returned: all logits, [1, L, V], and the cache.
    """
    if step.phase == "prefill":
        show_prefill(step, model, output, say)
        heading("decode", say)
    origin = "from prefill" if step.phase == "prefill" else f"{1000 * step.seconds:.0f} ms"
    say(
        f"token {step.number:>3}  input {shape(step.input_shape):<8} "
        f"logits {shape(step.logits_shape):<15} id {step.token_id:<6} {step.text!r} ({origin})"
    )


def show_prefill(step: Step, model: PreTrainedModel, output: Any, say: Say) -> None:
    """Show the outputs of prefill, the last position's logits and the choice among them."""
    heading("prefill: outputs", say)
    logits, keys = output.logits, cached_keys_and_values(output.cache, 0)[0]
    say(f"output       {type(output).__name__}")
    say(f"logits       {shape(step.logits_shape)}  one row of scores for each prompt position")
    say(f"first row    {shape(logits[:, 0].shape)}  {row_of_scores(logits[0, 0])}")
    say(f"last logits  {shape(logits[:, -1].shape)}  {row_of_scores(logits[0, -1])}")
    say(f"KV cache     {step.cache_length} tokens in {model.config.num_hidden_layers} layers")
    say(f"layer 0 keys {shape(keys.shape)}  [rows, KV heads, tokens, head size]")
    heading("top 5", say)
    for rank, candidate in enumerate(step.top_k, start=1):
        say(f"{rank}  {candidate_line(candidate)}")
    heading("next token", say)
    say(f"{step.text!r} (id {step.token_id}), the highest logit")


def show_end(trace: Trace, say: Say) -> None:
    """Show the finished run: ids, text, stop reason, times."""
    heading("result", say)
    say(f"ids          {trace.generated_ids}")
    say(f"text         {trace.text}")
    say(f"stop reason  {trace.stop_reason}")
    tpot = "none (a single token)" if trace.tpot_s is None else f"{1000 * trace.tpot_s:.1f} ms"
    say(f"TTFT         {1000 * trace.ttft_s:.1f} ms    TPOT {tpot}")


def row_of_scores(logits: torch.Tensor) -> str:
    """Return the first and last of a position's V logits, to three decimals."""
    return abridged([round(x, 3) for x in logits.tolist()], keep=3)


def candidate_line(candidate: Candidate) -> str:
    """Return one candidate as a line of a table."""
    return f"logit {candidate.logit:>8.3f}  id {candidate.token_id:<7} {candidate.text!r}"


def heading(title: str, say: Say) -> None:
    """Announce the next stage."""
    say(f"\n── {title} " + "─" * max(0, 60 - len(title)))


def shape(sizes: Sequence[int]) -> str:
    """Return a shape as it is written in the book: [1, 35]."""
    return str(list(sizes))


def abridged(values: Sequence[object], keep: int = 4) -> str:
    """Return the first and the last few of many values."""
    if len(values) <= 2 * keep:
        return str(list(values))
    first, last = (", ".join(map(str, part)) for part in (values[:keep], values[-keep:]))
    return f"[{first}, …, {last}]"
