"""Accounts from a config alone close with the tensors that were counted."""

import pytest
import torch
from tests.tiny import random_inputs, tiny_config, tiny_model

from inside_generate import decode_step, logits_bytes, prefill, weight_bytes
from inside_generate.account import (
    added_bytes,
    allocator_lines,
    answer_account,
    decode_account,
    prefill_account,
)
from inside_generate.live_tensors import LiveTensors
from inside_generate.loop import append_one
from inside_generate.memory import Measured

FP32 = torch.float32


def forward_peaks(model, length, steps):
    """Return the peak of a prefill and of each decode step after it."""
    inputs = random_inputs(length)
    mask, peaks = inputs["attention_mask"], []
    with LiveTensors() as memory:
        step = prefill(model, inputs)
        peaks.append(memory.peak_bytes)
        for _ in range(steps):
            memory.reset_peak()
            mask = append_one(mask)
            token_ids = step.logits.argmax(dim=-1)[:, None]
            step = decode_step(model, token_ids, step.cache, mask)
            peaks.append(memory.peak_bytes)
    return peaks


# A step's peak: a layer's keys, copied; two rows of logits; and these in prefill as well.
@pytest.mark.parametrize("vocabulary", [352, 8000, 60_000])
def test_the_peak_of_each_forward_is_predicted(vocabulary):
    model = tiny_model(vocab_size=vocabulary)
    peaks = forward_peaks(model, 100, 3)
    accounts = [prefill_account(model.config, 100, FP32)]
    accounts += [decode_account(model.config, n, FP32) for n in (101, 102, 103)]
    for peak, account in zip(peaks, accounts, strict=True):
        assert 0.97 * added_bytes(account) < peak < 1.1 * added_bytes(account)


def test_all_logits_are_part_of_the_account():
    config = tiny_config(vocab_size=2000)
    account = prefill_account(config, 100, FP32, logits_rows=100)
    assert account["logits"] == logits_bytes(config, 100, dtype=FP32)
    assert account["activations"] == 100 * config.hidden_size * 4
    assert account["weights"] == weight_bytes(config, FP32)


def test_an_answers_peak_is_its_prefills_or_its_last_steps(model):
    config = model.config
    assert (
        answer_account(config, 50, 1)
        == answer_account(config, 50, 2)
        == prefill_account(config, 50)
    )
    assert answer_account(config, 2, 100) == decode_account(config, 101)


def test_the_allocators_lines_add_up_to_what_is_reserved():
    taken = Measured(before_bytes=1000, peak_bytes=1600, reserved_bytes=2000)
    lines = allocator_lines(taken, weights_bytes=900, live_peak_bytes=550)
    assert lines == {"there before": 100, "rounding": 50, "kept for later": 400}
    assert 900 + 550 + sum(lines.values()) == taken.reserved_bytes


def test_without_an_allocators_counters_its_lines_are_absent_and_not_0():
    lines = allocator_lines(Measured(None, None, None), 900, 550)
    assert list(lines.values()) == [None, None, None]


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, None])
def test_lengths_are_counts(model, bad):
    for call in (
        lambda: prefill_account(model.config, bad),
        lambda: prefill_account(model.config, 5, logits_rows=bad),
        lambda: decode_account(model.config, bad),
        lambda: answer_account(model.config, 5, bad),
    ):
        with pytest.raises(ValueError, match="must be a whole number of at least 1"):
            call()
