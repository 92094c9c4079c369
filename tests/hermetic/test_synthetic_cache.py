"""A cache that no prompt has made is one that a decode step takes, and it can be cut back."""

import pytest
import torch
from tests.tiny import random_inputs

from inside_generate import (
    cached_keys_and_values,
    cached_length,
    decode_step,
    kv_cache_bytes,
    measured_kv_bytes,
    prefill,
)
from inside_generate.loop import drop_last, synthetic_cache


@pytest.mark.parametrize(("length", "batch"), [(1, 1), (7, 1), (20, 3)])
def test_it_has_the_shapes_dtype_and_bytes_of_a_real_one(model, length, batch):
    cache = synthetic_cache(model, length, batch)
    assert cached_length(cache) == length
    assert measured_kv_bytes(cache) == kv_cache_bytes(model.config, length, batch, torch.float32)
    real = prefill(model, random_inputs(length)).cache
    for made, given in zip(
        cached_keys_and_values(cache, 1), cached_keys_and_values(real, 1), strict=True
    ):
        assert made.shape == (batch, *given.shape[1:])
        assert made.dtype == given.dtype
        assert made.isfinite().all()


def test_a_decode_step_goes_on_from_it(model):
    cache = synthetic_cache(model, 5, batch=2)
    ids = torch.zeros(2, 1, dtype=torch.long)
    step = decode_step(model, ids, cache, torch.ones(2, 6, dtype=torch.long))
    assert step.logits.isfinite().all()
    assert cached_length(step.cache) == 6


def test_dropping_the_last_tokens_leaves_the_first_ones_as_they_were(model):
    cache = synthetic_cache(model, 5)
    keys = cached_keys_and_values(cache, 0)[0].clone()
    drop_last(cache)
    assert cached_length(cache) == 4
    drop_last(cache, 2)
    assert torch.equal(cached_keys_and_values(cache, 0)[0], keys[:, :, :2])


@pytest.mark.parametrize("length", [0, -1, 2.5, True])
def test_a_length_that_is_no_count_is_refused(model, length):
    with pytest.raises(ValueError, match="whole number of at least 1"):
        synthetic_cache(model, length)
