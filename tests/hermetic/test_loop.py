"""The loop against the library's own, on tiny fp32 models on the CPU.

Tolerances: 1e-4 on logits of size 10 in fp32, where sums are taken in another order (another length
or cache); two steps of bf16's grid at the size of the largest logit in bf16.
"""

import copy
import inspect

import pytest
import torch
from tests.tiny import WINDOW, tiny_model
from transformers import DynamicCache, GenerationConfig, StaticCache

import inside_generate
from inside_generate import (
    append_one,
    cached_keys_and_values,
    cached_length,
    decode_step,
    encode,
    generate,
    greedy,
    prefill,
    stream,
)
from inside_generate.loop import positions

PROMPTS = ("What's for lunch today?", [{"role": "user", "content": "soup"}])
PENALISED = {
    "do_sample": True,
    "repetition_penalty": 1.1,
    "temperature": 0.7,
    "top_p": 0.8,
    "top_k": 20,
}


def library_ids(model, inputs, left_pads=0, **settings):
    """Return the new ids of ``model.generate()`` for one prompt, without what pads it."""
    pads = inputs["input_ids"].new_full((1, left_pads), model.config.pad_token_id)
    output = model.generate(
        input_ids=torch.cat([pads, inputs["input_ids"]], dim=1),
        attention_mask=torch.cat([torch.zeros_like(pads), inputs["attention_mask"]], dim=1),
        **settings,
    )
    return output[0, left_pads + inputs["input_ids"].shape[1] :].tolist()


def random_inputs(length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 320, (1, length), generator=generator)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def recording(logits_of_steps, sampler=greedy):
    """Return a sampler that also keeps the logits that it saw."""

    def sample(logits):
        logits_of_steps.append(logits.clone())
        return sampler(logits)

    return sample


# --- equal to generate() --------------------------------------------------------------------------


@pytest.mark.parametrize("left_pads", [0, 5])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("prompt", PROMPTS, ids=["string", "list"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ids_equal_the_librarys_token_for_token(tokenizer, seed, prompt, cache, left_pads):
    model = tiny_model(seed)
    ours = generate(model, tokenizer, prompt, max_new_tokens=16).generated_ids
    theirs = library_ids(
        model,
        encode(tokenizer, prompt),
        left_pads,
        do_sample=False,
        repetition_penalty=1.0,
        max_new_tokens=16,
        cache_implementation=cache,
        disable_compile=True,
    )
    assert ours == theirs
    assert len(set(ours)) > 8, "a run that repeats itself would prove little"


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("kv_heads", [1, 2, 4], ids=["MQA", "GQA", "MHA"])
def test_ids_equal_the_librarys_for_each_kind_of_attention_and_head(tokenizer, tied, kv_heads):
    # A tied matrix with large weights would predict each token again: smaller ones here.
    model = tiny_model(
        3,
        num_key_value_heads=kv_heads,
        tie_word_embeddings=tied,
        initializer_range=0.15 if tied else 0.3,
    )
    ours = generate(model, tokenizer, "Who bakes the bread?", max_new_tokens=16).generated_ids
    assert ours == library_ids(
        model,
        encode(tokenizer, "Who bakes the bread?"),
        do_sample=False,
        repetition_penalty=1.0,
        max_new_tokens=16,
    )


@pytest.mark.parametrize("seed", range(4))
def test_ids_equal_the_librarys_for_a_checkpoint_with_a_penalty_and_several_eos_ids(
    tokenizer, seed
):
    stops = [tokenizer.eos_token_id, *range(0, 320, 16)]  # enough of them that one comes up
    model = tiny_model(seed, generation={**PENALISED, "eos_token_id": stops})
    inputs = encode(tokenizer, "soup")
    trace = generate(model, tokenizer, "soup", max_new_tokens=60)
    assert trace.generated_ids == library_ids(
        model, inputs, do_sample=False, repetition_penalty=1.0, max_new_tokens=60
    )
    assert trace.stop_reason == "eos"
    assert trace.generated_ids[-1] in stops


def test_only_a_penalty_of_one_makes_the_library_greedy(tokenizer):
    """``do_sample=False`` alone keeps the checkpoint's penalty, and so does a fresh config."""
    model = tiny_model(generation={**PENALISED, "repetition_penalty": 1.5})
    inputs = encode(tokenizer, PROMPTS[0])
    ours = generate(model, tokenizer, PROMPTS[0], max_new_tokens=24).generated_ids
    plain = library_ids(model, inputs, do_sample=False, max_new_tokens=24)
    fresh = library_ids(
        model, inputs, generation_config=GenerationConfig(do_sample=False, max_new_tokens=24)
    )
    unpenalised = library_ids(
        model, inputs, do_sample=False, repetition_penalty=1.0, max_new_tokens=24
    )
    assert ours == unpenalised
    assert ours != plain
    assert ours != fresh


def prompt_that_holds_its_best_next_token(model):
    for seed in range(50):
        inputs = random_inputs(100, seed)
        best = int(prefill(model, inputs).logits.argmax())
        if best in inputs["input_ids"]:
            return inputs, best
    raise AssertionError("none of 50 random prompts")


def test_the_librarys_penalty_counts_prompt_tokens_too():
    model = tiny_model(generation={"repetition_penalty": 100.0})
    inputs, best = prompt_that_holds_its_best_next_token(model)
    assert library_ids(model, inputs, do_sample=False, max_new_tokens=1) != [best]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("seed", [0, 1])
def test_logits_equal_the_librarys_at_each_step(tokenizer, dtype, seed):
    model = tiny_model(seed).to(dtype)
    inputs = encode(tokenizer, PROMPTS[0])
    seen = []
    trace = generate(model, tokenizer, PROMPTS[0], max_new_tokens=16, sampler=recording(seen))
    theirs = model.generate(
        **inputs,
        do_sample=False,
        repetition_penalty=1.0,
        max_new_tokens=16,
        output_logits=True,
        return_dict_in_generate=True,
    )
    assert trace.generated_ids == theirs.sequences[0, inputs["input_ids"].shape[1] :].tolist()
    ours = torch.stack(seen).float()
    # 2^-7 is the distance of two bf16 numbers from 1 to 2; the largest logit stretches it.
    tolerance = 1e-4 if dtype == torch.float32 else 2 * 2**-7 * float(ours.abs().max())
    torch.testing.assert_close(ours, torch.stack(theirs.logits).float(), atol=tolerance, rtol=0)


# --- cached equals uncached -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cached_logits_equal_uncached_at_each_step(tokenizer, seed):
    model = tiny_model(seed)
    seen = []
    trace = generate(model, tokenizer, PROMPTS[0], max_new_tokens=12, sampler=recording(seen))
    ids = trace.prompt_ids + trace.generated_ids
    for number, cached in enumerate(seen):
        prefix = torch.tensor([ids[: len(trace.prompt_ids) + number]])
        with torch.inference_mode():
            uncached = model(input_ids=prefix, use_cache=False).logits[:, -1]
        torch.testing.assert_close(cached, uncached, atol=1e-4, rtol=0)


def test_a_left_padded_row_gives_the_logits_of_the_row_alone():
    model = tiny_model()
    inputs = random_inputs(7)
    pads = torch.zeros(1, 5, dtype=torch.long)
    padded = {
        "input_ids": torch.cat([pads, inputs["input_ids"]], dim=1),
        "attention_mask": torch.cat([pads, inputs["attention_mask"]], dim=1),
    }
    alone, in_batch = prefill(model, inputs), prefill(model, padded)
    masks = [inputs["attention_mask"], padded["attention_mask"]]
    for _ in range(10):
        torch.testing.assert_close(in_batch.logits, alone.logits, atol=1e-4, rtol=0)
        token_ids = greedy(alone.logits)[:, None]
        masks = [append_one(mask) for mask in masks]
        alone = decode_step(model, token_ids, alone.cache, masks[0])
        in_batch = decode_step(model, token_ids, in_batch.cache, masks[1])


def test_a_left_padded_prompt_streams_the_same_tokens(model, tokenizer):
    inputs = encode(tokenizer, "soup")
    padded = {name: torch.nn.functional.pad(row, (5, 0)) for name, row in inputs.items()}
    alone, behind_pads = (
        [step.token_id for step in stream(model, tokenizer, row, max_new_tokens=8)]
        for row in (inputs, padded)
    )
    assert behind_pads == alone


def test_two_rows_of_different_length_give_the_logits_of_each_alone():
    model = tiny_model()
    rows = [random_inputs(3, seed=1), random_inputs(7, seed=2)]
    batch = {
        name: torch.cat([torch.nn.functional.pad(rows[0][name], (4, 0)), rows[1][name]])
        for name in ("input_ids", "attention_mask")
    }
    together = prefill(model, batch)
    alone = [prefill(model, row) for row in rows]
    expected = torch.cat([row.logits for row in alone])
    torch.testing.assert_close(together.logits, expected, atol=1e-4, rtol=0)

    token_ids = greedy(expected)[:, None]
    together = decode_step(model, token_ids, together.cache, append_one(batch["attention_mask"]))
    after = [
        decode_step(model, token_ids[i : i + 1], row.cache, append_one(rows[i]["attention_mask"]))
        for i, row in enumerate(alone)
    ]
    expected = torch.cat([row.logits for row in after])
    torch.testing.assert_close(together.logits, expected, atol=1e-4, rtol=0)


# --- the work: forwards, shapes, lengths ----------------------------------------------------------


@pytest.mark.parametrize("tokens", [1, 2, 9])
def test_t_tokens_cost_one_prefill_and_t_minus_1_decode_forwards(
    model, tokenizer, forwards, tokens
):
    calls = forwards(model)
    trace = generate(model, tokenizer, "soup", max_new_tokens=tokens)
    length = len(trace.prompt_ids)
    assert [list(call.input_ids.shape) for call in calls] == [[1, length]] + [[1, 1]] * (tokens - 1)
    assert len(trace.steps) == tokens


def test_each_decode_forward_is_given_the_token_just_picked(model, tokenizer, forwards):
    calls = forwards(model)
    trace = generate(model, tokenizer, "soup", max_new_tokens=6)
    assert calls[0].input_ids.tolist() == [trace.prompt_ids]
    assert [int(call.input_ids) for call in calls[1:]] == trace.generated_ids[:-1]


def test_the_mask_grows_by_one_before_each_decode_forward(model, tokenizer, forwards):
    calls = forwards(model)
    trace = generate(model, tokenizer, "soup", max_new_tokens=6)
    length = len(trace.prompt_ids)
    lengths = list(range(length, length + 6))
    assert [call.attention_mask.shape[1] for call in calls] == lengths
    assert [step.mask_length for step in trace.steps] == lengths
    assert all(bool(call.attention_mask.all()) for call in calls)


@pytest.mark.parametrize("dtype", [torch.long, torch.int32, torch.bool, torch.float32])
def test_the_grown_mask_keeps_its_dtype(dtype):
    mask = torch.tensor([[0, 1, 1], [1, 1, 1]]).to(dtype)
    grown = append_one(mask)
    assert grown.dtype == dtype
    assert grown.tolist() == [[0, 1, 1, 1], [1, 1, 1, 1]]


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool])
def test_a_mask_of_another_dtype_gives_the_same_tokens(model, tokenizer, dtype):
    inputs = encode(tokenizer, "soup")
    expected = [step.token_id for step in stream(model, tokenizer, inputs, max_new_tokens=4)]
    other = {**inputs, "attention_mask": inputs["attention_mask"].to(dtype)}
    assert [s.token_id for s in stream(model, tokenizer, other, max_new_tokens=4)] == expected


def test_the_cache_holds_l_then_l_plus_n_and_at_last_l_plus_t_minus_1(model, tokenizer):
    trace = generate(model, tokenizer, "soup", max_new_tokens=7)
    length = len(trace.prompt_ids)
    assert [step.cache_length for step in trace.steps] == [length + n for n in range(7)]
    assert trace.steps[-1].cache_length == length + 7 - 1


def test_the_cache_holds_keys_and_values_of_the_shapes_that_the_config_gives(model):
    cache = prefill(model, random_inputs(8)).cache
    assert cached_length(cache) == 8
    keys, values = cached_keys_and_values(cache, layer=1)
    assert keys.shape == values.shape == (1, 2, 8, 64 // 4)


def test_positions_count_real_tokens_from_zero():
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    assert positions(mask).tolist() == [[0, 1, 2, 3], [0, 0, 0, 1]]


def test_decode_forwards_are_given_the_next_position(model, tokenizer, forwards):
    calls = forwards(model)
    trace = generate(model, tokenizer, "soup", max_new_tokens=4)
    length = len(trace.prompt_ids)
    assert calls[0].position_ids.tolist() == [list(range(length))]
    assert [call.position_ids.tolist() for call in calls[1:]] == [[[length + n]] for n in range(3)]


# --- logits: all of them or the last row ----------------------------------------------------------


def test_only_the_last_row_of_logits_is_computed_unless_all_are_asked_for(model, forwards):
    calls = forwards(model)
    last, full = prefill(model, random_inputs(8)), prefill(model, random_inputs(8), True)
    assert [call.head_positions for call in calls] == [1, 8]
    assert last.full_logits_shape == (1, 1, model.config.vocab_size)
    assert full.full_logits_shape == (1, 8, model.config.vocab_size)
    assert last.all_logits is None
    assert tuple(full.all_logits.shape) == full.full_logits_shape


def test_the_last_row_is_the_same_either_way(model):
    inputs = random_inputs(8)
    last, full = prefill(model, inputs), prefill(model, inputs, keep_all_logits=True)
    torch.testing.assert_close(last.logits, full.logits, atol=1e-5, rtol=0)
    assert torch.equal(full.logits, full.all_logits[:, -1])
    assert last.logits.shape == (1, model.config.vocab_size)


def test_generate_records_the_shape_of_all_logits_only_where_they_were_kept(model, tokenizer):
    vocabulary = model.config.vocab_size
    last = generate(model, tokenizer, "soup", max_new_tokens=2)
    full = generate(model, tokenizer, "soup", max_new_tokens=2, keep_all_logits=True)
    length = len(full.prompt_ids)
    assert [step.logits_shape for step in last.steps] == [(1, 1, vocabulary)] * 2
    assert [step.logits_shape for step in full.steps] == [
        (1, length, vocabulary),
        (1, 1, vocabulary),
    ]
    assert full.generated_ids == last.generated_ids


def test_neither_logits_nor_cache_drag_a_graph_along(model):
    first = prefill(model, random_inputs(8))
    tensors = [first.logits, *cached_keys_and_values(first.cache, 0)]
    second = decode_step(model, greedy(first.logits)[:, None], first.cache, torch.ones(1, 9))
    tensors += [second.logits, *cached_keys_and_values(second.cache, 0)]
    for tensor in tensors:
        assert tensor.grad_fn is None
        assert not tensor.requires_grad
        assert tensor.is_inference()


# --- misuse raises --------------------------------------------------------------------------------


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


# --- layers and repetition ------------------------------------------------------------------------


def test_stream_yields_the_steps_of_generate(model, tokenizer):
    streamed = list(stream(model, tokenizer, encode(tokenizer, "soup"), max_new_tokens=5))
    whole = generate(model, tokenizer, "soup", max_new_tokens=5)
    without_time = [
        [{**vars(step), "seconds": None} for step in steps] for steps in (streamed, whole.steps)
    ]
    assert without_time[0] == without_time[1]
    assert [step.number for step in streamed] == [1, 2, 3, 4, 5]
    assert [step.phase for step in streamed] == ["prefill"] + ["decode"] * 4


def test_stream_runs_a_forward_only_when_its_token_is_asked_for(model, tokenizer, forwards):
    calls = forwards(model)
    steps = stream(model, tokenizer, encode(tokenizer, "soup"), max_new_tokens=5)
    assert len(calls) == 0
    next(steps)
    assert len(calls) == 1
    next(steps)
    assert len(calls) == 2


def test_each_record_is_handed_over_before_the_next_forward(model, tokenizer, forwards):
    calls, seen = forwards(model), []
    trace = generate(
        model,
        tokenizer,
        "soup",
        max_new_tokens=4,
        on_step=lambda step: seen.append((step, len(calls))),
    )
    assert [step for step, _ in seen] == list(trace.steps)
    assert [forwards_so_far for _, forwards_so_far in seen] == [1, 2, 3, 4]


def test_a_second_run_gives_the_same_tokens(model, tokenizer):
    first, second = (generate(model, tokenizer, "soup", max_new_tokens=8) for _ in range(2))
    assert first.generated_ids == second.generated_ids


def test_another_sampler_picks_the_tokens(model, tokenizer):
    def second_best(logits):
        return logits.topk(2).indices[:, 1]

    trace = generate(model, tokenizer, "soup", max_new_tokens=4, sampler=second_best)
    assert trace.generated_ids == [step.top_k[1].token_id for step in trace.steps]


def test_the_library_is_silently_wrong_for_the_masks_that_ours_refuses(model):
    """Why ``decode_step`` checks: were this to raise one day, the check could go."""
    cache = DynamicCache(config=model.config)
    inputs = random_inputs(8)
    with torch.inference_mode():
        first = model(**inputs, cache=cache, use_cache=True)
        token_ids = first.logits[:, -1].argmax(dim=-1, keepdim=True)
        right, wrong = (
            model(
                input_ids=token_ids,
                attention_mask=torch.ones(1, length, dtype=torch.long),
                cache=copy.deepcopy(cache),
            ).logits
            for length in (9, 8)
        )
    assert float((right - wrong).abs().max()) > 0.1


def test_a_static_cache_serves_the_same_steps(model):
    """The door takes any cache of the library's: its length is asked, never assumed."""
    inputs = random_inputs(8)
    dynamic = prefill(model, inputs)
    static = StaticCache(config=model.config, max_cache_len=16)
    with torch.inference_mode():
        model(**inputs, cache=static, use_cache=True)
    token_ids, mask = greedy(dynamic.logits)[:, None], torch.ones(1, 9, dtype=torch.long)
    ours = decode_step(model, token_ids, dynamic.cache, mask)
    same = decode_step(model, token_ids, static, mask)
    assert cached_length(static) == 9
    torch.testing.assert_close(same.logits, ours.logits, atol=1e-4, rtol=0)
