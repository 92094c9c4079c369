"""The predicted work is the counted work, to the last operation."""

import pytest
import torch
from tests.tiny import random_inputs, tiny_model
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPT2Config

from inside_generate import decode_step, prefill
from inside_generate.flops import (
    attention_flops,
    decode_flops,
    layer_matrix_numbers,
    matrix_flops,
    prefill_flops,
)
from inside_generate.reference import reference_config


def counted(run):
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("shape", [{}, {"head_dim": 8}, {"num_key_value_heads": 4}])
def test_the_work_of_prefill_and_of_a_decode_step_is_as_predicted(shape):
    model = tiny_model(**shape)
    inputs = random_inputs(9)
    step = prefill(model, inputs)
    ids, mask = inputs["input_ids"][:, :1], torch.ones(1, 10, dtype=torch.long)
    assert counted(lambda: prefill(model, inputs)) == prefill_flops(model.config, 9)
    assert counted(lambda: prefill(model, inputs, keep_all_logits=True)) == prefill_flops(
        model.config, 9, logits_rows=9
    )
    assert counted(lambda: decode_step(model, ids, step.cache, mask)) == decode_flops(
        model.config, 10
    )


def test_weights_work_grows_with_the_prompt_and_attentions_with_its_square(model):
    assert matrix_flops(model.config, 20, 0) == 2 * matrix_flops(model.config, 10, 0)
    assert attention_flops(model.config, 20, 20) == 4 * attention_flops(model.config, 10, 10)


def test_a_layers_matrices_are_counted_from_the_config(model):
    layer = model.model.layers[0]
    real = sum(weight.numel() for weight in layer.parameters() if weight.dim() == 2)
    assert layer_matrix_numbers(model.config) == real


def test_in_the_reference_attention_overtakes_the_weights_at_8320_tokens():
    reference = reference_config()
    assert matrix_flops(reference, 8320, 0) == attention_flops(reference, 8320, 8320)


@pytest.mark.parametrize("bad", [-1, 1.5, float("nan"), True, "a", None])
def test_a_size_that_is_no_whole_number_has_no_work(model, bad):
    calls = (
        lambda: matrix_flops(model.config, bad),
        lambda: matrix_flops(model.config, 5, bad),
        lambda: attention_flops(model.config, bad, 5),
        lambda: attention_flops(model.config, 5, bad),
        lambda: prefill_flops(model.config, bad),
        lambda: decode_flops(model.config, bad),
    )
    for call in calls:
        with pytest.raises(ValueError, match=f"whole number of at least [01], not {bad!r}"):
            call()


def test_a_prompt_has_no_more_rows_of_logits_than_tokens(model):
    with pytest.raises(ValueError, match="3 tokens have no 9 rows"):
        prefill_flops(model.config, 3, logits_rows=9)
    with pytest.raises(ValueError, match=r"context must be .* at least 1, not 0"):
        decode_flops(model.config, 0)


def test_a_config_without_a_gated_mlp_is_named():
    with pytest.raises(ValueError, match="GPT2Config has no intermediate_size"):
        prefill_flops(GPT2Config(), 3)
