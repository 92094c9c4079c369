"""A right answer is accepted whatever form its values have, and whatever it does to its inputs."""

import copy

import numpy as np
import pytest
import torch
from tests.tiny import random_inputs, tiny_tokenizer

from inside_generate import append_one, decode_step, generate, greedy, prefill, run_record
from inside_generate.cache import kv_cache_bytes, weight_bytes
from inside_generate.exercises import (
    autoregression,
    decode,
    greedy_decoding,
    kv_cache,
    kv_cache_memory,
    memory_accounting,
    model_inputs,
    number_formats,
    performance,
    reference_run,
    stopping,
    whole_loop,
    whole_path,
)
from inside_generate.exercises import prefill as prefill_checks
from inside_generate.exercises.checking import RIGHT
from inside_generate.exercises.tokenizer import check_merge

NUMBERS = [np.int64, np.float32, torch.tensor, lambda x: torch.tensor([x])]
LISTS = [list, tuple, np.array, torch.tensor]


def causal(length):
    return torch.full((length, length), float("-inf")).triu(1)


def may_look(mask):
    return causal(mask.shape[1]).eq(0) & mask.bool()[:, None]


def attention(q, keys, values):
    return (keys @ q / len(q) ** 0.5).softmax(-1) @ values


def merge(symbols, pair):
    merged, i = [], 0
    while i < len(symbols):
        size = 2 if tuple(symbols[i : i + 2]) == pair else 1
        merged.append("".join(symbols[i : i + size]))
        i += size
    return merged


def best_pair(tree):
    joint = {(a, b): p * q for a, (p, then) in tree.items() for b, q in then.items()}
    return max(joint.items(), key=lambda item: item[1])


def log_p(logits, ids, length=1):
    rows = logits[0, length - 1 : -1].log_softmax(-1)
    return rows.gather(1, ids[0, length:, None]).sum()


def log_p_in_place(logits, ids, length=1):
    rows = logits.exp_()[0] / logits[0].sum(-1, keepdim=True)
    return rows[length - 1 : -1].gather(1, ids[0, length:, None]).log().sum()


@pytest.mark.parametrize("form", LISTS)
def test_lists_tuples_arrays_and_tensors_are_one(form):
    positions = lambda n, t: form([t * n + t * (t - 1) // 2, n + t - 1])  # noqa: E731
    assert kv_cache.check_positions(positions) == RIGHT
    assert whole_path.check_forward_passes(lambda t: form([1, t - 1])) == RIGHT
    assert prefill_checks.check_logits_shape(lambda *sizes: form(sizes)) == RIGHT


def test_a_tuple_of_symbols_is_as_good_as_a_list():
    assert check_merge(lambda symbols, pair: tuple(merge(symbols, pair))) == RIGHT


@pytest.mark.parametrize("form", NUMBERS)
def test_a_number_of_numpy_or_torch_is_a_number(form, model):
    def added(run, allocator):
        before = allocator.allocated()
        allocator.reset_peak()
        run()
        return form(allocator.peak() - before)

    def tpot(total, first, tokens):
        return None if tokens == 1 else torch.tensor((total - first) / (tokens - 1))

    def break_even(config):
        return form(int(weight_bytes(config) / kv_cache_bytes(config, 1)))

    assert number_formats.check_counting_limit(form(2**11)) == RIGHT
    bytes_per_token = lambda *sizes: np.int64(2 * np.prod(sizes))  # noqa: E731
    assert kv_cache_memory.check_bytes_per_token(bytes_per_token) == RIGHT
    assert memory_accounting.check_added(added) == RIGHT
    assert performance.check_tpot(tpot) == RIGHT
    assert performance.check_break_even(break_even, model.config) == RIGHT
    log_probability = lambda *all: form(float(log_p(*all)))  # noqa: E731
    if form is not np.int64:
        assert autoregression.check_log_probability(log_probability) == RIGHT
        assert greedy_decoding.check_log_probability(log_probability) == RIGHT


@pytest.mark.parametrize("middle", [np.median, lambda times: torch.tensor(times).median()])
def test_the_timer_may_return_any_kind_of_number(middle):
    def timer(run, clock, synchronize, repeats):
        run()
        times = []
        for _ in range(repeats):
            synchronize()
            start = clock()
            run()
            synchronize()
            times.append(clock() - start)
        return middle(times)

    assert performance.check_timer(timer) == RIGHT
    assert "which runs" in performance.check_timer(lambda *all: timer(*all) + 1)


@pytest.mark.parametrize("form", [np.bool_, torch.tensor])
def test_a_truth_of_numpy_or_torch_is_a_truth(form, tokenizer):
    def user_text(tokenizer, ids, eos_ids):
        return tokenizer.decode(ids, skip_special_tokens=True), form(ids[-1] in eos_ids)

    assert stopping.check_user_text(user_text, tokenizer) == RIGHT


@pytest.mark.parametrize("form", [torch.Tensor.numpy, torch.Tensor.double, torch.Tensor.tolist])
def test_arrays_are_as_good_as_tensors(form):
    assert autoregression.check_causal_mask(lambda n: form(causal(n))) == RIGHT
    assert model_inputs.check_may_look(lambda mask: form(may_look(mask))) == RIGHT
    assert kv_cache.check_attention(lambda *all: form(attention(*all))) == RIGHT


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_may_be_rounded_as_its_dtype_rounds(dtype):
    assert kv_cache.check_attention(lambda *all: attention(*all).to(dtype)) == RIGHT
    unscaled = lambda q, k, v: ((k @ q).softmax(-1) @ v).to(dtype)  # noqa: E731
    assert "the root" in kv_cache.check_attention(unscaled)


def test_functions_may_change_what_they_are_given(model):
    assert autoregression.check_log_probability(log_p_in_place) == RIGHT
    assert greedy_decoding.check_log_probability(log_p_in_place) == RIGHT

    def next_token(logits):
        best = logits[:, -1].argmax(-1)
        logits.zero_()
        return best

    assert prefill_checks.check_next_token(next_token) == RIGHT


def test_a_tree_that_is_used_up_is_whole_again_for_the_next_try():
    def used_up(tree):
        best = best_pair(tree)
        tree.clear()
        return best

    assert greedy_decoding.check_best_pair(used_up) == RIGHT
    assert greedy_decoding.check_best_pair(best_pair) == RIGHT


def test_a_loop_may_write_its_mask_back_into_its_inputs(model):
    def loop(model, inputs, steps):
        step = prefill(model, inputs)
        ids = [greedy(step.logits)]
        for _ in range(steps):
            inputs["attention_mask"] = append_one(inputs["attention_mask"])
            step = decode_step(model, ids[-1][:, None], step.cache, inputs["attention_mask"])
            ids.append(greedy(step.logits))
        return torch.cat(ids)

    inputs = random_inputs(6)
    assert decode.check_decode_loop(loop, model, inputs) == RIGHT
    assert inputs["attention_mask"].shape == (1, 6)


def test_a_branchs_logits_may_be_an_array(model):
    def branch(model, step, mask, token_ids):
        cache = copy.deepcopy(step.cache)
        return decode_step(model, token_ids, cache, append_one(mask)).logits.numpy()

    assert decode.check_branch(branch, model, random_inputs(6)) == RIGHT


@pytest.mark.parametrize("rows", [1, 8])
def test_few_rows_at_a_time_are_few_whatever_python_keeps_of_them(rows):
    def predictions(hidden, W):
        return torch.cat([(part @ W.T).argmax(dim=-1) for part in hidden.split(rows)]).int()

    assert memory_accounting.check_predictions(predictions) == RIGHT


@pytest.mark.parametrize("form", [tuple, np.array, torch.tensor, lambda ids: list(np.array(ids))])
def test_an_engine_may_write_its_run_in_any_form(form, model):
    record = run_record(generate(model, tiny_tokenizer(), "soup", max_new_tokens=3), model)
    top_k = record["steps"][0]["top_k"]

    def engine(_model, prompt_ids, count):
        best = [{key: form([part[key]])[0] for key in ("token_id", "logit")} for part in top_k]
        ids = record["generated_token_ids"][:count]
        return {"input_ids": form([prompt_ids]), "generated_token_ids": form(ids), "top_k": best}

    count = len(record["generated_token_ids"])
    assert reference_run.check_own_engine(engine, model, record, count) == RIGHT


def test_ids_in_rows_are_ids(model):
    ids = [3, 1]
    check = whole_loop.check_uncached_generate
    assert check(lambda *_: torch.tensor([ids]), model, [5], ids) == RIGHT
