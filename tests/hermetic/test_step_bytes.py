"""The bytes that a forward reads: an embedding table of its own counts by the row."""

import pytest
import torch
from tests.tiny import VOCABULARY, tiny_config, tiny_model

from inside_generate import kv_cache_bytes, weight_bytes
from inside_generate.reference import reference_config
from inside_generate.step_bytes import (
    prefill_bytes,
    step_bytes,
    step_bytes_of,
    step_weight_bytes,
)

ROW = 64 * 4  # bytes of one row of the embedding, fp32


def test_a_separate_embedding_is_read_by_the_row(model):
    stored = weight_bytes(model, torch.float32)
    assert step_weight_bytes(model) == stored - (VOCABULARY - 1) * ROW
    assert step_weight_bytes(model, 5) == stored - (VOCABULARY - 5) * ROW


def test_no_more_rows_are_read_than_there_are(model):
    assert step_weight_bytes(model, 10_000) == weight_bytes(model, torch.float32)


def test_a_tied_matrix_is_read_in_full_and_once():
    model = tiny_model(tie_word_embeddings=True)
    for tokens in (1, 7):
        assert step_weight_bytes(model, tokens) == weight_bytes(model, torch.float32)


def test_bytes_are_those_of_the_tensors_as_stored(model):
    half = tiny_model().to(torch.bfloat16)
    assert 2 * step_weight_bytes(half) == step_weight_bytes(model)
    assert 2 * step_bytes(half, 9) == step_bytes(model, 9)


def test_weights_kept_as_buffers_count_and_tables_that_are_not_saved_do_not():
    model = tiny_model()
    before = step_weight_bytes(model)
    linear = model.model.layers[0].mlp.up_proj
    linear.register_buffer("rounded", torch.zeros(96, 64, dtype=torch.int8))
    linear.register_buffer("scratch", torch.zeros(1000), persistent=False)
    del linear.weight
    assert step_weight_bytes(model) == before - 96 * 64 * 4 + 96 * 64


def test_a_step_reads_weights_once_and_a_cache_for_each_row(model):
    cached = kv_cache_bytes(model.config, 9, 3, torch.float32)
    assert step_bytes(model, 9, batch=3) == step_weight_bytes(model, 3) + cached


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_config_predicts_what_the_tensors_say(tied, dtype):
    model = tiny_model(tie_word_embeddings=tied).to(dtype)
    config = tiny_config(tie_word_embeddings=tied)
    assert step_bytes_of(config, 9, 2, dtype) == step_bytes(model, 9, 2)


def test_a_step_of_the_reference_reads_all_its_weights():
    assert step_bytes_of(reference_config(), 1) == 988_065_536 + 12_288


def test_a_prefill_reads_a_row_of_the_embedding_for_each_token(model):
    cached = kv_cache_bytes(model.config, 6, 2, torch.float32)
    assert prefill_bytes(model, 6, 2) == step_weight_bytes(model, 12) + cached


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "2", None])
def test_rows_and_tokens_are_counts(model, bad):
    for call in (
        lambda: step_weight_bytes(model, bad),
        lambda: step_bytes(model, 3, bad),
        lambda: step_bytes_of(model.config, 3, bad),
        lambda: prefill_bytes(model, bad),
    ):
        with pytest.raises(ValueError, match="must be a whole number of at least 1"):
            call()


def test_what_is_no_model_or_config_is_named(model):
    with pytest.raises(ValueError, match="Linear has no get_input_embeddings: a model"):
        step_weight_bytes(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="dict has no num_hidden_layers: the config"):
        step_bytes_of(model.config.to_dict(), 3)
