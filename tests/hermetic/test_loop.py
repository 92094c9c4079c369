"""The work that the loop does: forwards, shapes, lengths, and who is handed what and when."""

import pytest
import torch
from tests.tiny import random_inputs

from inside_generate import (
    SeesTokens,
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


def test_a_sampler_that_sees_tokens_gets_prompt_and_answer_so_far(model, tokenizer):
    seen = []

    def never_again(logits, token_ids):
        seen.append(token_ids[0].tolist())
        return logits.index_fill(1, token_ids[0], -torch.inf).argmax(dim=-1)

    trace = generate(
        model,
        tokenizer,
        "soup",
        max_new_tokens=5,
        sampler=SeesTokens(never_again),
        eos_token_ids=[],
    )
    ids = trace.prompt_ids + trace.generated_ids
    assert seen == [ids[: len(trace.prompt_ids) + n] for n in range(5)]
    assert len(set(trace.generated_ids) - set(trace.prompt_ids)) == 5


@pytest.mark.parametrize("function", [generate, stream])
def test_without_a_limit_an_answer_ends_after_64_tokens(model, tokenizer, function):
    given = "soup" if function is generate else encode(tokenizer, "soup")
    made = function(model, tokenizer, given, eos_token_ids=[])
    assert len(made.steps if function is generate else list(made)) == 64


def test_the_prompt_goes_to_the_device_of_the_model(model, tokenizer, monkeypatch):
    asked = []

    def watched(tokenizer, messages, device=None):
        asked.append(device)
        return encode(tokenizer, messages, device)

    monkeypatch.setattr("inside_generate.loop.encode", watched)
    generate(model, tokenizer, "soup", max_new_tokens=1)
    assert asked == [model.device]


def test_a_decode_step_keeps_no_second_view_of_its_one_row_of_logits(model):
    step = prefill(model, random_inputs(4))
    after = decode_step(model, greedy(step.logits)[:, None], step.cache, torch.ones(1, 5))
    assert step.all_logits is None
    assert after.all_logits is None
