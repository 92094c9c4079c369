"""The memory of one answer, predicted from a config: what is alive when most is alive.

Each account says how many bytes weights, KV cache, logits and activations take at the peak of a
prefill or of a decode step, for the layers of Qwen2, Llama and their kin as the library runs them:
without a graph for a backward pass, and with an MLP wider than what attention needs. Beside them
stand the lines that only a GPU's allocator has.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from transformers import PretrainedConfig

from inside_generate.cache import head_dim, kv_cache_bytes, kv_heads, logits_bytes, weight_bytes
from inside_generate.guards import check_sizes
from inside_generate.memory import Measured

Account = dict[str, int]  # part → bytes
ADDED = ("KV cache", "logits", "activations")  # the parts that an answer adds to the weights


def prefill_account(
    config: PretrainedConfig,
    length: int,
    dtype: torch.dtype = torch.bfloat16,
    logits_rows: int = 1,
) -> Account:
    """Return the parts at the peak of a prefill of ``length`` tokens.

    Most is alive in the last layer's MLP, or, where many rows of logits are kept, when they are
    made: from the last hidden states, [1, L, hidden size].
    """
    check_sizes(1, length=length, logits_rows=logits_rows)
    hidden = length * config.hidden_size * dtype.itemsize
    logits = logits_bytes(config, logits_rows, dtype=dtype)
    return _larger(config, length, dtype, (0, length * _mlp_bytes(config, dtype)), (logits, hidden))


def decode_account(
    config: PretrainedConfig, context: int, dtype: torch.dtype = torch.bfloat16
) -> Account:
    """Return the parts at the peak of a decode step whose token sees ``context`` positions.

    The row of logits that the token was chosen from is still held. Most is alive when a second one
    is made or, with a long context, when a layer's keys are copied to make room for one more.
    """
    check_sizes(1, context=context)
    row = logits_bytes(config, 1, dtype=dtype)
    hidden = config.hidden_size * dtype.itemsize
    keys = context * kv_heads(config) * head_dim(config) * dtype.itemsize
    moments = ((2 * row, hidden), (row, _mlp_bytes(config, dtype)), (row, keys))
    return _larger(config, context, dtype, *moments)


def answer_account(
    config: PretrainedConfig,
    prompt_tokens: int,
    generated_tokens: int,
    dtype: torch.dtype = torch.bfloat16,
) -> Account:
    """Return the parts at the peak of a whole answer: its prefill's, or its last decode step's."""
    check_sizes(1, prompt_tokens=prompt_tokens, generated_tokens=generated_tokens)
    accounts = [prefill_account(config, prompt_tokens, dtype)]
    if generated_tokens > 1:  # the last token is never an input
        accounts.append(decode_account(config, prompt_tokens + generated_tokens - 1, dtype))
    return max(accounts, key=added_bytes)


def added_bytes(account: Mapping[str, int]) -> int:
    """Return what an answer adds to the weights."""
    return sum(account[part] for part in ADDED)


def allocator_lines(
    taken: Measured, weights_bytes: int, live_peak_bytes: int
) -> dict[str, int | None]:
    """Return what a GPU's allocator holds beside the tensors; ``None`` where there is no such.

    ``live_peak_bytes`` is what ``LiveTensors`` counted in the same run.
    """
    before, peak, reserved = taken.before_bytes, taken.peak_bytes, taken.reserved_bytes
    if before is None or peak is None or reserved is None:
        return dict.fromkeys(("there before", "rounding", "kept for later"))
    return {
        "there before": before - weights_bytes,  # a library's workspace, earlier tensors
        "rounding": peak - before - live_peak_bytes,  # and what operations use inside themselves
        "kept for later": reserved - peak,  # free: whole blocks, and gaps in others
    }


def _mlp_bytes(config: PretrainedConfig, dtype: torch.dtype) -> int:
    """Return what one token keeps alive in an MLP: three inner vectors and four hidden ones.

    The gate after its activation, the other half, their product; embedding, the layer's input, the
    sum after attention, and that sum after its norm.
    """
    return (3 * config.intermediate_size + 4 * config.hidden_size) * dtype.itemsize


def _larger(
    config: PretrainedConfig, context: int, dtype: torch.dtype, *moments: tuple[int, int]
) -> Account:
    """Return the account of the moment with the most logits and activations together."""
    logits, activations = max(moments, key=sum)
    return {
        "weights": weight_bytes(config, dtype),
        "KV cache": kv_cache_bytes(config, context, dtype=dtype),
        "logits": logits,
        "activations": activations,
    }
