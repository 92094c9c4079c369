"""What torch and the library really do where people are caught out: why the course does otherwise.

Were one of these to change one day, a warning of the book could go.
"""

import copy
from itertools import pairwise

import pytest
import torch
from tests.tiny import random_inputs, tiny_config, tiny_model
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import DynamicCache, LlamaForCausalLM, Qwen2ForCausalLM, StaticCache

from inside_generate import (
    append_one,
    cached_keys_and_values,
    cached_length,
    decode_step,
    kv_cache_bytes,
    measured_kv_bytes,
    prefill,
)
from inside_generate.flops import attention_flops
from inside_generate.live_tensors import LiveTensors
from inside_generate.loop import number_of_cached_layers


def after_prefill(model, length=8):
    """Return the cache of a prompt, filled by the library itself, and its best next token."""
    cache = DynamicCache(config=model.config)
    with torch.inference_mode():
        logits = model(**random_inputs(length), cache=cache, use_cache=True).logits
    return cache, logits[:, -1].argmax(dim=-1, keepdim=True)


# --- attention by hand ----------------------------------------------------------------------------


def one_query_over_a_cache(keys_held):
    generator = torch.Generator().manual_seed(0)
    shapes = (1, 2, 1, 16), (1, 2, keys_held, 16), (1, 2, keys_held, 16)
    return [torch.randn(shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize("keys_held", [2, 9])
def test_one_query_that_is_called_causal_sees_the_first_key_only(keys_held):
    query, keys, values = one_query_over_a_cache(keys_held)
    seen = functional.scaled_dot_product_attention(query, keys, values, is_causal=True)
    torch.testing.assert_close(seen, values[:, :, :1])


@pytest.mark.parametrize("keys_held", [1, 2, 9])
def test_one_query_without_a_mask_sees_every_key(keys_held):
    query, keys, values = one_query_over_a_cache(keys_held)
    shares = (query @ keys.transpose(-1, -2) / 16**0.5).softmax(dim=-1)
    seen = functional.scaled_dot_product_attention(query, keys, values)
    torch.testing.assert_close(seen, shares @ values)
    assert (shares > 0).all()


# --- a cache that is handed in --------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 8])
def test_a_short_mask_is_silently_wrong_and_a_long_one_silently_cut(model, length):
    cache, token_ids = after_prefill(model)
    right, wrong, long = (
        decode_step(model, token_ids, copy.deepcopy(cache), torch.ones(1, 9)).logits,
        *(
            model(
                input_ids=token_ids,
                attention_mask=torch.ones(1, given, dtype=torch.long),
                cache=copy.deepcopy(cache),
            ).logits[:, -1]
            for given in (length, 11)
        ),
    )
    assert not torch.allclose(wrong, right, atol=0.1)
    torch.testing.assert_close(long, right, atol=1e-4, rtol=0)


def test_the_library_changes_a_cache_in_place_call_after_call(model):
    cache, token_ids = after_prefill(model)
    lengths = [cached_length(cache)]
    with torch.inference_mode():
        for _ in range(2):
            mask = torch.ones(1, lengths[-1] + 1, dtype=torch.long)
            model(input_ids=token_ids, attention_mask=mask, cache=cache)
            lengths.append(cached_length(cache))
    assert lengths == [8, 9, 10]


@pytest.mark.parametrize("family", [Qwen2ForCausalLM, LlamaForCausalLM])
def test_a_cache_grows_though_use_cache_is_false(family):
    """The switch only keeps a model from making one: what is handed in is read and written."""
    model = family(family.config_class(**tiny_config().to_diff_dict())).eval()
    cache, token_ids = after_prefill(model)
    right = decode_step(model, token_ids, copy.deepcopy(cache), torch.ones(1, 9)).logits
    with torch.inference_mode():
        again = model(
            input_ids=token_ids,
            attention_mask=torch.ones(1, 9, dtype=torch.long),
            cache=cache,
            use_cache=False,
        )
    assert cached_length(cache) == 9
    torch.testing.assert_close(again.logits[:, -1], right, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["attn_mask", "caches", "num_logits_to_keep", "cache_position"])
def test_a_forward_swallows_a_keyword_that_it_does_not_know_and_generate_refuses_it(model, name):
    """The last two are names that its earlier versions had."""
    inputs = random_inputs(4)
    with torch.inference_mode():
        right, swallowed = model(**inputs).logits, model(**inputs, **{name: 1}).logits
    assert torch.equal(swallowed, right)
    with pytest.raises(ValueError, match=name):
        model.generate(**inputs, max_new_tokens=1, **{name: 1})


# --- no inference mode ----------------------------------------------------------------------------


def kept_at_each_step(model, inference, steps=4):
    """Return the bytes that stay alive after each decode step, less keys and values."""
    inputs = random_inputs(8)
    mask, token_ids = inputs["attention_mask"], torch.tensor([[3]])
    cache, kept = DynamicCache(config=model.config), []
    with LiveTensors() as live, torch.inference_mode(inference):
        model(**inputs, cache=cache)
        for _ in range(steps):
            mask = append_one(mask)
            model(input_ids=token_ids, attention_mask=mask, cache=cache)
            held = [cached_keys_and_values(cache, x) for x in range(number_of_cached_layers(cache))]
            of_the_cache = sum(tensor.nbytes for pair in held for tensor in pair)
            kept.append(live.live_bytes - mask.nbytes - of_the_cache)
    return kept


def test_without_inference_mode_the_cache_drags_the_graph_of_every_step_along(model):
    grown = kept_at_each_step(model, inference=False)
    per_step = [after - before for before, after in pairwise(grown)]
    # At least what the MLPs of a step keep for their backward pass.
    config = model.config
    assert min(per_step) > 4 * config.num_hidden_layers * config.intermediate_size
    assert per_step == sorted(per_step), "and more each time: old keys and values are kept too"


def test_in_inference_mode_nothing_but_keys_and_values_stays(model):
    assert kept_at_each_step(model, inference=True) == [0] * 4


# --- compiling ------------------------------------------------------------------------------------


def compilations(cache_of, mask_of=lambda mask: mask, steps=3):
    """Return how often the attention of a layer was compiled in each decode step."""
    model, graphs, counts = tiny_model(num_hidden_layers=1), [], []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    inputs, cache = random_inputs(8), cache_of(model.config)
    mask, attention = inputs["attention_mask"], model.model.layers[0].self_attn
    torch.compiler.reset()
    with torch.inference_mode():
        model(**inputs, cache=cache)
        attention.forward = torch.compile(attention.forward, backend=backend)
        for number in range(steps):
            before, mask = len(graphs), append_one(mask)
            model(
                input_ids=torch.tensor([[3]]),
                attention_mask=mask_of(mask),
                position_ids=torch.tensor([[8 + number]]),
                cache=cache,
            )
            counts.append(len(graphs) - before)
    torch.compiler.reset()
    return counts


def test_a_cache_that_grows_is_compiled_again_and_one_of_fixed_size_once():
    """With every shape fixed, only the first call compiles: it has to be timed apart."""
    room = 16
    once = compilations(
        lambda config: StaticCache(config=config, max_cache_len=room),
        lambda mask: functional.pad(mask, (0, room - mask.shape[1])),
    )
    assert once == [1, 0, 0]
    again = compilations(lambda config: DynamicCache(config=config), steps=4)
    assert again == [1, 1, 0, 0], "the second time for any length"


# --- three popular sentences ----------------------------------------------------------------------


def decode_steps(model, steps=4):
    """Return for each decode step the operations of its attention and the bytes cached after it."""
    inputs = random_inputs(8)
    step, mask = prefill(model, inputs), inputs["attention_mask"]
    work, held = [], [measured_kv_bytes(step.cache)]
    for _ in range(steps):
        mask = append_one(mask)
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            step = decode_step(model, torch.tensor([[3]]), step.cache, mask)
        work.append(counter.get_total_flops())
        held.append(measured_kv_bytes(step.cache))
    return work, held


def test_the_cache_does_not_make_attention_constant_each_step_has_one_key_more_to_meet(model):
    work, _ = decode_steps(model)
    (one_key,) = {after - before for before, after in pairwise(work)}
    assert one_key == attention_flops(model.config, 1, 1) > 0


def test_the_cache_grows_by_the_same_bytes_each_step_and_not_quadratically(model):
    _, held = decode_steps(model)
    (one_token,) = {after - before for before, after in pairwise(held)}
    assert one_token == held[0] / 8 == kv_cache_bytes(model.config, 1, dtype=torch.float32)


def test_generate_does_not_compute_everything_again_unless_its_cache_is_off(model, forwards):
    calls = forwards(model)
    settings = {"max_new_tokens": 4, "do_sample": False, "eos_token_id": None}
    model.generate(**random_inputs(8), **settings)
    model.generate(**random_inputs(8), **settings, use_cache=False)
    fed = [call.input_ids.shape[1] for call in calls]
    assert fed == [8, 1, 1, 1, 8, 9, 10, 11]
