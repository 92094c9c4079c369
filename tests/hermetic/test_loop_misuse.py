"""Calls that the library would answer with wrong numbers: here each raises and says why."""

import ast
import copy
import inspect
from pathlib import Path

import pytest
import torch
from tests.tiny import WINDOW, random_inputs, tiny_model
from transformers import DynamicCache, MistralConfig, MistralForCausalLM, StaticCache

import inside_generate
from inside_generate import (
    cached_keys_and_values,
    cached_length,
    decode_step,
    encode,
    generate,
    greedy,
    prefill,
    stream,
)


def test_a_mask_of_cached_plus_one_gives_the_uncached_logits(model):
    inputs = random_inputs(8)
    step = prefill(model, inputs)
    token_ids = greedy(step.logits)[:, None]
    cached = decode_step(model, token_ids, step.cache, torch.ones(1, 9, dtype=torch.long))
    uncached = prefill(
        model,
        {
            "input_ids": torch.cat([inputs["input_ids"], token_ids], dim=1),
            "attention_mask": torch.ones(1, 9, dtype=torch.long),
        },
    )
    torch.testing.assert_close(cached.logits, uncached.logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize("length", [1, 8, 10, 11])
def test_a_mask_of_any_other_length_raises_and_leaves_the_cache_alone(model, length):
    step = prefill(model, random_inputs(8))
    mask = torch.ones(1, length, dtype=torch.long)
    with pytest.raises(ValueError, match=rf"\[1, 9\], not \[1, {length}\].*cache holds 8 tokens"):
        decode_step(model, greedy(step.logits)[:, None], step.cache, mask)
    assert cached_length(step.cache) == 8


@pytest.mark.parametrize("shape", [(9,), (2, 9), (1, 1, 9, 9)])
def test_a_mask_of_another_form_raises(model, shape):
    step = prefill(model, random_inputs(8))
    with pytest.raises(ValueError, match=r"attention_mask must be \[1, 9\]"):
        decode_step(model, greedy(step.logits)[:, None], step.cache, torch.ones(shape))


def test_the_mask_is_a_required_argument(model):
    step = prefill(model, random_inputs(8))
    with pytest.raises(TypeError, match="attention_mask"):
        decode_step(model, greedy(step.logits)[:, None], step.cache)


def test_the_same_decode_step_run_twice_on_one_cache_raises(model):
    step = prefill(model, random_inputs(8))
    token_ids, mask = greedy(step.logits)[:, None], torch.ones(1, 9)
    again = decode_step(model, token_ids, step.cache, mask)
    assert cached_length(step.cache) == cached_length(again.cache) == 9, "it grew in place"
    with pytest.raises(ValueError, match=r"must be \[1, 10\], not \[1, 9\].*holds 9 tokens"):
        decode_step(model, token_ids, step.cache, mask)


def test_a_deep_copy_of_the_cache_branches_cleanly(model):
    step = prefill(model, random_inputs(8))
    mask = torch.ones(1, 9)
    best, second = step.logits.topk(2).indices[0]
    branch = copy.deepcopy(step.cache)
    one = decode_step(model, best.view(1, 1), step.cache, mask)
    other = decode_step(model, second.view(1, 1), branch, mask)
    assert cached_length(one.cache) == cached_length(other.cache) == 9
    assert not torch.equal(one.logits, other.logits)
    for token_id, branched in ((best, one), (second, other)):
        fresh = prefill(model, random_inputs(8))
        expected = decode_step(model, token_id.view(1, 1), fresh.cache, mask)
        assert torch.equal(branched.logits, expected.logits)


def test_the_prompt_fed_again_as_decode_input_raises(model):
    inputs = random_inputs(8)
    step = prefill(model, inputs)
    with pytest.raises(ValueError, match=r"\[B, 1\], not \[1, 8\].*in the cache already"):
        decode_step(model, inputs["input_ids"], step.cache, torch.ones(1, 16))
    assert cached_length(step.cache) == 8


def test_a_flat_token_raises(model):
    step = prefill(model, random_inputs(8))
    with pytest.raises(ValueError, match=r"one token a row, \[B, 1\], not \[1\]"):
        decode_step(model, greedy(step.logits), step.cache, torch.ones(1, 9))


@pytest.mark.parametrize("mask", [[[1, 1, 1, 0]], [[0, 1, 1, 0]]])
def test_a_row_padded_on_the_right_is_refused(model, mask):
    inputs = {"input_ids": torch.ones(1, 4, dtype=torch.long), "attention_mask": torch.tensor(mask)}
    with pytest.raises(ValueError, match="pad on the left"):
        prefill(model, inputs)


def test_two_prompts_of_three_and_seven_tokens_padded_right_are_refused(model):
    mask = torch.tensor([[1, 1, 1, 0, 0, 0, 0], [1] * 7])
    with pytest.raises(ValueError, match="pad on the left"):
        prefill(model, {"input_ids": torch.ones_like(mask), "attention_mask": mask})


@pytest.mark.parametrize("shape", [(1, 0), (0,), (5,), (1, 1, 5)])
def test_an_empty_prompt_and_one_of_another_form_are_refused(model, shape):
    ids = torch.ones(shape, dtype=torch.long)
    with pytest.raises(ValueError, match=r"input_ids must be \[B, L\] with L ≥ 1"):
        prefill(model, {"input_ids": ids, "attention_mask": ids})


def test_a_prompt_mask_of_another_length_is_refused(model):
    inputs = {**random_inputs(8), "attention_mask": torch.ones(1, 7)}
    with pytest.raises(ValueError, match=r"must be \[1, 8\] like input_ids, not \[1, 7\]"):
        prefill(model, inputs)


def test_two_rows_in_the_one_prompt_loop_are_refused(model, tokenizer, forwards):
    calls = forwards(model)
    ids = torch.ones(2, 4, dtype=torch.long)
    inputs = {"input_ids": ids, "attention_mask": ids}
    with pytest.raises(ValueError, match="one prompt at a time"):
        next(stream(model, tokenizer, inputs))
    assert not calls


@pytest.mark.parametrize(
    ("limit", "error"),
    [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError), ("3", TypeError)],
)
def test_a_limit_that_is_no_whole_number_of_at_least_1_is_refused(
    model, tokenizer, forwards, limit, error
):
    calls = forwards(model)
    with pytest.raises(error, match=rf"max_new_tokens must be .*{limit}"):
        generate(model, tokenizer, "soup", max_new_tokens=limit)
    assert not calls, "it was refused before any work"


def test_prompt_and_answer_may_fill_the_window_and_not_pass_it(tokenizer):
    model = tiny_model(generation={"eos_token_id": None}, eos_token_id=None)
    length = encode(tokenizer, "soup")["input_ids"].shape[1]
    room = WINDOW - length + 1  # the last token picked is never an input
    with pytest.warns(UserWarning, match="EOS"):  # the tokenizer names one, the model none
        trace = generate(model, tokenizer, "soup", max_new_tokens=room)
    assert trace.steps[-1].cache_length == WINDOW
    with pytest.raises(ValueError, match=rf"need {WINDOW + 1} positions.*has {WINDOW}"):
        generate(model, tokenizer, "soup", max_new_tokens=room + 1, eos_token_ids=[])


def functions_that_others_call():
    named = {name: getattr(inside_generate, name) for name in inside_generate.__all__}
    return {name: value for name, value in named.items() if inspect.isfunction(value)}


@pytest.mark.parametrize("name", sorted(functions_that_others_call()))
def test_a_misspelt_keyword_is_a_type_error_in_every_public_function(name):
    with pytest.raises(TypeError, match="misspelt"):
        functions_that_others_call()[name](misspelt=1)


SOURCES = sorted(Path(inside_generate.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_function_for_others_takes_keywords_that_it_does_not_know(path):
    """Two that do are guards: each keyword is the name of a value to be checked.

    The others speak the engines' line protocol: what one side sends goes to a function of the other
    that knows its keywords.
    """
    protocol = {"ask", "load", "perform", "watched"} if path.parent.name == "engines" else set()
    collecting = {
        node.name
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.args.kwarg and not node.name.startswith("_")
    }
    assert collecting <= {"check_sizes", "check_as_many", *protocol}


@pytest.mark.parametrize("wrong", ["max_new_token", "cache_position", "past_key_values"])
def test_a_keyword_that_the_library_would_swallow_is_a_type_error(model, tokenizer, wrong):
    with pytest.raises(TypeError, match=wrong):
        generate(model, tokenizer, "soup", **{wrong: None})
    with pytest.raises(TypeError, match=wrong):
        prefill(model, random_inputs(4), **{wrong: None})


@pytest.mark.parametrize(
    "sampler",
    [
        lambda logits: logits,
        lambda logits: logits.argmax(dim=-1, keepdim=True),
        lambda logits: logits.argmax(),
        lambda logits: int(logits.argmax()),
        lambda logits: [3],
        lambda logits: torch.tensor([3, 4]),
        lambda logits: torch.tensor([3.0]),
        lambda logits: torch.tensor([-1]),
        lambda logits: torch.tensor([logits.shape[-1]]),
    ],
    ids=["logits", "kept", "scalar", "int", "list", "two", "float", "negative", "beyond V"],
)
def test_a_sampler_that_returns_no_valid_id_a_row_is_refused(model, tokenizer, sampler):
    with pytest.raises(ValueError, match="a sampler must return"):
        generate(model, tokenizer, "soup", max_new_tokens=3, sampler=sampler)


@pytest.mark.parametrize("other", [{"num_key_value_heads": 4}, {"num_hidden_layers": 3}])
def test_a_cache_of_another_model_is_refused(model, other):
    cache = prefill(tiny_model(**other), random_inputs(3)).cache
    with pytest.raises(ValueError, match="belongs to another"):
        decode_step(model, torch.tensor([[1]]), cache, torch.ones(1, 4))
    assert cached_length(cache) == 3


@pytest.mark.parametrize("rows", [1, 3])
def test_a_cache_of_another_batch_is_refused(model, rows):
    ids = torch.ones(2, 3, dtype=torch.long)
    cache = prefill(model, {"input_ids": ids, "attention_mask": ids}).cache
    with pytest.raises(ValueError, match=rf"\[2, 2, 16, .*and the step has \[{rows}, 2, 16"):
        decode_step(model, torch.ones(rows, 1).long(), cache, torch.ones(rows, 4))


@pytest.mark.parametrize(
    ("token_ids", "message"),
    [
        (torch.tensor([[99_999]]), "token id 99999 is not among"),
        (torch.tensor([[-1]]), "token id -1 is not among"),
        (torch.tensor([[1.0]]), r"must be a tensor of int64 or int32, not torch\.float32"),
        ([[1]], "must be a tensor of int64 or int32, not list"),
    ],
)
def test_what_is_no_id_is_refused_in_prefill_and_in_decode(model, token_ids, message):
    cache = prefill(model, random_inputs(3)).cache
    with pytest.raises(ValueError, match=message):
        decode_step(model, token_ids, cache, torch.ones(1, 4))
    with pytest.raises(ValueError, match=message):
        prefill(model, {"input_ids": token_ids, "attention_mask": torch.ones(1, 1)})
    assert cached_length(cache) == 3


def test_a_new_cache_takes_its_first_token_from_a_decode_step(model):
    cache = DynamicCache(config=model.config)
    step = decode_step(model, torch.tensor([[1]]), cache, torch.ones(1, 1))
    assert cached_length(step.cache) == 1


# --- caches of fixed size -------------------------------------------------------------------------


def static(model, room):
    return StaticCache(config=model.config, max_cache_len=room)


def tokens_with_static_cache(model, room, prompt=5, new=4):
    """Return the greedy ids of ``new`` tokens after a prompt, in a cache of ``room`` slots."""
    inputs = random_inputs(prompt)
    mask, step = inputs["attention_mask"], prefill(model, inputs, cache=static(model, room))
    chosen = [greedy(step.logits)]
    while len(chosen) < new:
        mask = torch.cat([mask, mask.new_ones(1, 1)], dim=1)
        step = decode_step(model, chosen[-1][:, None], step.cache, mask)
        chosen.append(greedy(step.logits))
    return torch.cat(chosen).tolist(), step.cache


def test_a_static_cache_that_is_just_long_enough_gives_the_tokens_of_one_that_grows(model):
    ids, cache = tokens_with_static_cache(model, room=5 + 4 - 1)
    roomy, _ = tokens_with_static_cache(model, room=20)
    reply = model.generate(**random_inputs(5), max_new_tokens=4, do_sample=False, eos_token_id=None)
    assert ids == roomy == reply[0, 5:].tolist()
    assert cached_length(cache) == 8


def test_a_static_cache_one_slot_too_short_raises_before_the_step(model):
    with pytest.raises(ValueError, match="the cache has 7 slots and 8 tokens need one each"):
        tokens_with_static_cache(model, room=5 + 4 - 2)
    step = prefill(model, random_inputs(7), cache=static(model, 7))
    before = cached_keys_and_values(step.cache, 0)[0].clone()
    with pytest.raises(ValueError, match="7 slots and 8 tokens"):
        decode_step(model, greedy(step.logits)[:, None], step.cache, torch.ones(1, 8))
    assert cached_length(step.cache) == 7
    assert torch.equal(cached_keys_and_values(step.cache, 0)[0], before)


def test_a_prompt_longer_than_the_static_cache_raises(model):
    with pytest.raises(ValueError, match="the cache has 6 slots and 7 tokens need one each"):
        prefill(model, random_inputs(7), cache=static(model, 6))


@pytest.mark.parametrize("kind", ["growing", "static"])
def test_a_prefill_into_a_cache_that_holds_tokens_raises(model, kind):
    cache = static(model, 30) if kind == "static" else DynamicCache(config=model.config)
    step = prefill(model, random_inputs(7), cache=cache)
    assert step.cache is cache
    with pytest.raises(ValueError, match="the cache holds 7 tokens already"):
        prefill(model, random_inputs(7), cache=cache)
    assert cached_length(cache) == 7


@pytest.mark.parametrize(("rows", "dtype"), [(2, torch.float32), (1, torch.bfloat16)])
def test_a_static_cache_whose_tensors_are_of_another_form_raises(model, rows, dtype):
    cache = static(model, 9)
    cache.early_initialization(rows, 2, 16, dtype, "cpu")
    message = rf"made for {rows} rows of {dtype}, and the prompt has 1 of torch\.float32"
    with pytest.raises(ValueError, match=message):
        prefill(model, random_inputs(5), cache=cache)
    assert cached_length(cache) == 0


def test_a_static_cache_with_its_tensors_ready_is_filled(model):
    cache = static(model, 9)
    cache.early_initialization(1, 2, 16, torch.float32, "cpu")
    ready = prefill(model, random_inputs(5), cache=cache)
    assert torch.equal(
        ready.logits, prefill(model, random_inputs(5), cache=static(model, 9)).logits
    )


def test_a_static_cache_without_a_slot_holds_no_prompt(model):
    with pytest.raises(ValueError, match="0 slots and 5 tokens"):
        prefill(model, random_inputs(5), cache=static(model, 0))


def test_a_cache_that_was_made_without_a_config_is_filled_too(model):
    step = prefill(model, random_inputs(5), cache=DynamicCache())
    assert cached_length(step.cache) == 5
    assert torch.equal(step.logits, prefill(model, random_inputs(5)).logits)


def test_a_sliding_window_is_no_limit_to_what_a_cache_takes_in():
    """Its layers have a longest length too, and go on beyond it by forgetting."""
    settings = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    config = MistralConfig(
        **settings, vocab_size=352, num_hidden_layers=1, num_key_value_heads=1, sliding_window=4
    )
    mistral = MistralForCausalLM(config).eval()
    step = prefill(mistral, random_inputs(6))
    after = decode_step(mistral, greedy(step.logits)[:, None], step.cache, torch.ones(1, 7))
    assert cached_length(after.cache) == 7


# --- what is no prompt, what is no cache ----------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "found"),
    [({"input_ids": torch.ones(1, 3, dtype=torch.long)}, r"\['input_ids'\]"),
     (torch.ones(1, 3), "Tensor"), ({}, r"\[\]"), (None, "NoneType"), ("soup", "str")],
)  # fmt: skip
def test_inputs_without_ids_or_mask_are_refused(model, tokenizer, inputs, found):
    message = f"inputs must hold input_ids and attention_mask, .* not {found}"
    with pytest.raises(ValueError, match=message):
        prefill(model, inputs)
    with pytest.raises(ValueError, match=message):
        next(stream(model, tokenizer, inputs))


@pytest.mark.parametrize("cache", [None, ((torch.ones(1), torch.ones(1)),), "cache"])
def test_what_is_no_cache_is_refused(model, cache):
    token_ids = torch.ones(1, 1, dtype=torch.long)
    with pytest.raises(ValueError, match=r"cache must be a Cache, as prefill.* not <class"):
        decode_step(model, token_ids, cache, torch.ones(1, 9))


def test_model_and_tokenizer_in_the_wrong_order_are_told_the_right_one(model, tokenizer):
    for run in (
        lambda: generate(tokenizer, model, "soup"),
        lambda: next(stream(tokenizer, model, random_inputs(3))),
        lambda: prefill(tokenizer, random_inputs(3)),
    ):
        with pytest.raises(
            ValueError, match=r"has no config: .*load\(\) returns the tokenizer first"
        ):
            run()


def test_ids_on_another_device_than_the_model_are_told_the_way_there(model):
    inputs = {name: tensor.to("meta") for name, tensor in random_inputs(3).items()}
    with pytest.raises(ValueError, match=r"on meta and the model is on cpu: encode\("):
        prefill(model, inputs)


def test_a_forward_in_the_place_of_its_cache_is_named(model):
    with pytest.raises(ValueError, match=r"must be a Cache.*Forward"):
        cached_length(prefill(model, random_inputs(3)))


@pytest.mark.parametrize("layers", [1, 3])
def test_a_cache_made_for_another_depth_is_not_filled(model, layers):
    for kind in (DynamicCache, StaticCache):
        room = {"max_cache_len": 9} if kind is StaticCache else {}
        cache = kind(config=tiny_model(num_hidden_layers=layers).config, **room)
        with pytest.raises(ValueError, match=f"has {layers} layers and the model 2"):
            prefill(model, random_inputs(3), cache=cache)


def test_a_cache_of_another_dtype_or_head_size_is_refused_before_a_layer_has_grown(model):
    """Torch raises too, but in the middle: the first layer would hold a token more."""
    halves = tiny_model().bfloat16(), tiny_model(head_dim=8)
    for other in halves:
        cache = prefill(model, random_inputs(3)).cache
        with pytest.raises(ValueError, match="belongs to another batch or model"):
            decode_step(other, torch.tensor([[1]]), cache, torch.ones(1, 4))
        lengths = {cached_keys_and_values(cache, layer)[0].shape[2] for layer in (0, 1)}
        assert lengths == {3}
