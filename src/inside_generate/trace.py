"""What one run was: a record for each token, and the run as a whole.

Plain data, frozen, with units in the names. ``to_dict`` and ``from_dict`` are the way to JSON and
back; what a run's file says about the machine is added in ``record.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from inside_generate import memory, timing
from inside_generate.chat import Messages, decode_text, render_chat
from inside_generate.guards import check_sizes
from inside_generate.stopping import EOS, LIMIT
from inside_generate.tokens import Spelling, spellings

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Candidate:
    """One token that could come next, with its logit before softmax.

    ``probability`` is its share of softmax over the whole vocabulary, computed in float32: those
    of a step's few candidates do not add up to 1. ``None`` in records of engines that do not give
    it, and in those made before the course kept it.
    """

    token_id: int
    logit: float
    text: str
    probability: float | None = None


@dataclass(frozen=True)
class Step:
    """One token and the forward pass that it came from."""

    number: int  # of the generated token, from 1
    phase: str  # "prefill" for token 1, "decode" for the others
    token_id: int
    text: str  # of this id alone: a character may be spread over several ids
    top_k: tuple[Candidate, ...]  # best first
    input_shape: Shape  # [1, L] in prefill, [1, 1] in decode
    logits_shape: Shape  # [1, positions kept, V]
    mask_length: int  # keys that this forward could see
    cache_length: int  # tokens in the KV cache after this forward
    seconds: float  # forward and choice, device synchronised


@dataclass(frozen=True)
class Trace:
    """A finished run of one prompt."""

    prompt: str | list[dict[str, Any]]
    rendered_prompt: str
    prompt_ids: list[int]
    steps: tuple[Step, ...]
    text: str
    stop_reason: str  # "eos" or "max_new_tokens"
    max_new_tokens: int
    eos_token_ids: list[int]
    device: str
    dtype: str
    peak_allocated_mib: float | None  # None where the device has no such counter
    kv_bytes_a_token: int | None = None  # by config and dtype; None in older records
    spellings: tuple[Spelling, ...] | None = None  # of each id that occurs; None if not byte-level

    @cached_property
    def generated_ids(self) -> list[int]:
        """The ids in order; an EOS that ended the run is the last of them."""
        return [step.token_id for step in self.steps]

    @property
    def ttft_s(self) -> float:
        """Seconds to the first token."""
        return timing.ttft_s([step.seconds for step in self.steps])

    @property
    def tpot_s(self) -> float | None:
        """Mean seconds per token after the first; ``None`` for a single token."""
        return timing.tpot_s([step.seconds for step in self.steps])

    def to_dict(self) -> dict[str, Any]:
        """Return the run under the keys of its JSON file (``data/run.schema.json``)."""
        first = self.steps[0]
        return {
            "prompt": self.prompt,
            "rendered_prompt": self.rendered_prompt,
            "input_ids": [self.prompt_ids],
            "input_shape": [1, len(self.prompt_ids)],
            "full_logits_shape": list(first.logits_shape),
            "last_logits_shape": [first.logits_shape[0], first.logits_shape[-1]],
            "top_k": [asdict(candidate) for candidate in first.top_k],
            "generated_token_ids": self.generated_ids,
            "generated_text": self.text,
            "stop_reason": self.stop_reason,
            "max_new_tokens": self.max_new_tokens,
            "eos_token_id": sorted(self.eos_token_ids),
            "prompt_tokens": len(self.prompt_ids),
            "generated_tokens": len(self.steps),
            "peak_allocated_mib": self.peak_allocated_mib,
            "device": self.device,
            "dtype": self.dtype,
            "kv_bytes_a_token": self.kv_bytes_a_token,
            "spellings": None if self.spellings is None else [asdict(s) for s in self.spellings],
            "steps": [_step_to_dict(step) for step in self.steps],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Trace:
        """Return the run that ``to_dict`` wrote; keys about the machine are passed over."""
        try:
            trace = cls._from_dict(record)
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(
                f"no record of a run, as to_dict() writes it: {type(error).__name__}: {error}"
            ) from error
        if not trace.steps:
            raise ValueError("no record of a run: it has no steps")
        return trace

    @classmethod
    def _from_dict(cls, record: Mapping[str, Any]) -> Trace:
        spelt = record.get("spellings")
        return cls(
            prompt=record["prompt"],
            rendered_prompt=record["rendered_prompt"],
            prompt_ids=list(record["input_ids"][0]),
            steps=tuple(_step_from_dict(step) for step in record["steps"]),
            text=record["generated_text"],
            stop_reason=record["stop_reason"],
            max_new_tokens=record["max_new_tokens"],
            eos_token_ids=list(record["eos_token_id"]),
            device=record["device"],
            dtype=record["dtype"],
            peak_allocated_mib=record["peak_allocated_mib"],
            kv_bytes_a_token=record.get("kv_bytes_a_token"),
            spellings=None if spelt is None else tuple(Spelling(**one) for one in spelt),
        )


def finished(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    messages: Messages,
    prompt_ids: torch.Tensor,
    steps: Sequence[Step],
    stops: frozenset[int],
    max_new_tokens: int,
) -> Trace:
    """Return the run that these steps make: one prompt's ids, [L], and a record for each token."""
    return Trace(
        prompt=messages if isinstance(messages, str) else [dict(turn) for turn in messages],
        rendered_prompt=render_chat(tokenizer, messages),
        prompt_ids=prompt_ids.tolist(),
        steps=tuple(steps),
        text=decode_text(tokenizer, [step.token_id for step in steps]),
        stop_reason=stop_reason(steps[-1].token_id, stops),
        max_new_tokens=max_new_tokens,
        eos_token_ids=sorted(stops),
        device=str(model.device),
        dtype=str(model.dtype).removeprefix("torch."),
        peak_allocated_mib=memory.peak_allocated_mib(model.device),
        kv_bytes_a_token=_kv_bytes_a_token(model),
        spellings=spellings(tokenizer, _ids_that_occur(prompt_ids.tolist(), steps)),
    )


def token_text(tokenizer: PreTrainedTokenizerBase, token_id: int) -> str:
    """Return the text of one id; U+FFFD where it holds only part of a character's bytes."""
    return decode_text(tokenizer, [token_id], skip_special_tokens=False)


def top_candidates(
    tokenizer: PreTrainedTokenizerBase, logits: torch.Tensor, k: int = 5
) -> tuple[Candidate, ...]:
    """Return the ``k`` best next tokens of one row of logits, [V], best first.

    Of equal logits the lowest id comes first, as in greedy choice; ``topk`` does not promise that.
    """
    check_sizes(1, k=k)
    shape = list(getattr(logits, "shape", [type(logits).__name__]))
    if not isinstance(logits, torch.Tensor) or len(shape) != 1 or not len(logits):
        raise ValueError(f"logits must be one row of a tensor, [V] with V ≥ 1, not {shape}")
    scores = logits.float()
    worst = scores.topk(min(k, len(scores))).values[-1]
    if scores.isnan().any():
        raise ValueError(
            "the logits are not numbers (NaN): the weights are damaged, or the dtype is too small "
            "for this model; try float32"
        )
    shares = scores.softmax(dim=-1)  # [V]
    near = (scores >= worst).nonzero()[:, 0]  # k of them, or more where the last ones are equal
    order = scores[near].argsort(descending=True, stable=True)[:k]
    return tuple(
        Candidate(
            token_id,
            scores[token_id].item(),
            token_text(tokenizer, token_id),
            shares[token_id].item(),
        )
        for token_id in near[order].tolist()
    )


def stop_reason(last_token_id: int, eos_token_ids: frozenset[int]) -> str:
    """Return why a finished run ended. An EOS at the limit is still an EOS."""
    return EOS if last_token_id in eos_token_ids else LIMIT


def _kv_bytes_a_token(model: PreTrainedModel) -> int | None:
    """Return what each token adds to the KV cache; ``None`` where the config does not tell."""
    from inside_generate.cache import kv_cache_bytes  # which needs loop.py, and that this module

    try:
        return kv_cache_bytes(model.config, 1, dtype=model.dtype)
    except ValueError:
        return None


def _ids_that_occur(prompt_ids: list[int], steps: Sequence[Step]) -> list[int]:
    """Return each id of the prompt, of the answer and of the candidates once, lowest first."""
    named = {candidate.token_id for step in steps for candidate in step.top_k}
    return sorted({*prompt_ids, *named, *(step.token_id for step in steps)})


def _step_to_dict(step: Step) -> dict[str, Any]:
    record = asdict(step)
    for shape in ("input_shape", "logits_shape"):
        record[shape] = list(record[shape])
    record["top_k"] = list(record["top_k"])
    return record


def _step_from_dict(record: Mapping[str, Any]) -> Step:
    return Step(
        **{
            **record,
            "top_k": tuple(Candidate(**candidate) for candidate in record["top_k"]),
            "input_shape": tuple(record["input_shape"]),
            "logits_shape": tuple(record["logits_shape"]),
        }
    )
