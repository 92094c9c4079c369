"""A cache that no prompt has made is one that a decode step takes, and it can be cut back."""

import pytest
import torch
from tests.tiny import WINDOW, random_inputs
from transformers import MistralConfig, MistralForCausalLM

from inside_generate import (
    cached_keys_and_values,
    cached_length,
    decode_step,
    kv_cache_bytes,
    measured_kv_bytes,
    prefill,
)
from inside_generate.loop import drop_last
from inside_generate.synthetic import synthetic_cache


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


def test_all_tokens_can_be_dropped(model):
    cache = synthetic_cache(model, 3)
    drop_last(cache, 3)
    assert cached_length(cache) == 0


@pytest.mark.parametrize("length", [0, -1, 2.5, True])
def test_a_length_that_is_no_count_is_refused(model, length):
    with pytest.raises(ValueError, match="whole number of at least 1"):
        synthetic_cache(model, length)


@pytest.mark.parametrize("batch", [0, -1, 1.5, True, None])
def test_a_batch_that_is_no_count_is_refused(model, batch):
    with pytest.raises(ValueError, match=f"batch must be .* at least 1, not {batch!r}"):
        synthetic_cache(model, 3, batch)


def test_a_length_beyond_the_window_is_refused(model):
    with pytest.raises(ValueError, match=f"{WINDOW + 1} tokens are more than"):
        synthetic_cache(model, WINDOW + 1)


def test_a_cache_that_forgets_is_refused():
    config = MistralConfig(
        vocab_size=9,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        sliding_window=4,
    )
    with pytest.raises(ValueError, match="sliding window"):
        synthetic_cache(MistralForCausalLM(config).eval(), 10)


@pytest.mark.parametrize("tokens", [0, -1, 1.5, True, None])
def test_dropping_what_is_no_count_is_refused(model, tokens):
    cache = synthetic_cache(model, 5)
    with pytest.raises(ValueError, match=f"tokens must be .* at least 1, not {tokens!r}"):
        drop_last(cache, tokens)
    assert cached_length(cache) == 5


def test_more_tokens_than_there_are_cannot_be_dropped(model):
    cache = synthetic_cache(model, 5)
    with pytest.raises(ValueError, match="holds 5 tokens, 6 cannot go"):
        drop_last(cache, 6)
    assert cached_length(cache) == 5
