"""A wrong answer that comes near to a right one is not accepted, and told what is wrong."""

import copy
import re
import statistics

import pytest
import torch
from tests.tiny import random_inputs, tiny_model, tiny_tokenizer

from inside_generate import (
    append_one,
    cached_keys_and_values,
    decode_step,
    generate,
    run_record,
)
from inside_generate.exercises import (
    autoregression,
    chat_template,
    decode,
    greedy_decoding,
    kv_cache,
    memory_accounting,
    model_inputs,
    number_formats,
    performance,
    reference_run,
    stopping,
    tokenizer,
    whole_loop,
)
from inside_generate.exercises import prefill as prefill_checks
from inside_generate.formats import quantise


def all_at_once(tokenizer, ids):
    return [tokenizer.decode(ids)] + [""] * (len(ids) - 1)


def held_back(tokenizer, ids):
    """Return the texts of a stream that shows each character when it is whole."""
    parts = []
    for count in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:count])
        new = text[len("".join(parts)) :]
        parts.append("" if text.endswith("\ufffd") else new)
    return parts


def one_late(tokenizer, ids):
    *most, last_but_one, last = held_back(tokenizer, ids)
    return ["", *most, last_but_one + last]


def last_but_one(tokenizer, ids):
    return [""] * (len(ids) - 2) + [tokenizer.decode(ids), ""]


@pytest.mark.parametrize(
    ("stream", "said"),
    [(all_at_once, "too early"), (one_late, "too late"), (last_but_one, "too late")],
)
def test_a_stream_shows_what_is_whole_and_no_more_after_each_id(stream, said, tokenizer):
    assert said in model_inputs.check_streamed(stream, tokenizer)


def branch(model, step, mask, token_ids):
    return decode_step(model, token_ids, copy.deepcopy(step.cache), append_one(mask)).logits


def without_numbers(*arguments):
    return branch(*arguments) * float("nan")


def with_the_first_keys_gone(model, step, mask, token_ids):
    logits = branch(model, step, mask, token_ids)
    cached_keys_and_values(step.cache, 0)[0].zero_()
    return logits


@pytest.mark.parametrize(
    ("function", "said"), [(without_numbers, "are others"), (with_the_first_keys_gone, "copy it")]
)
def test_a_branch_gives_numbers_and_leaves_every_layer_alone(function, said, model):
    assert said in decode.check_branch(function, model, random_inputs(4))


def test_a_model_without_numbers_proves_nothing():
    broken = tiny_model()
    broken.lm_head.weight.data.fill_(float("nan"))
    zeros = lambda model, inputs, steps: [0] * (steps + 1)  # noqa: E731
    assert "no numbers" in decode.check_decode_loop(zeros, broken, random_inputs(4))


def timer(pick, warm_ups=1, repeats_more=0):
    def median_seconds(run, clock, synchronize, repeats):
        for _ in range(warm_ups):
            run()
        seconds = []
        for _ in range(repeats + repeats_more):
            synchronize()
            start = clock()
            run()
            synchronize()
            seconds.append(clock() - start)
        return pick(seconds)

    return median_seconds


@pytest.mark.parametrize(
    "function",
    [
        timer(lambda seconds: seconds[0]),
        timer(lambda seconds: seconds[-1]),
        timer(lambda seconds: seconds[len(seconds) // 2]),
        timer(statistics.median_low, warm_ups=0, repeats_more=1),
        timer(statistics.median_high, warm_ups=0, repeats_more=1),
    ],
)
def test_a_timers_median_is_no_single_reading_and_has_no_warm_up(function):
    assert "which runs count" in performance.check_timer(function)


def stop_check(ids, eos_ids, limit):
    return "eos" if ids[-1] in eos_ids else "max_new_tokens" if len(ids) >= limit else None


@pytest.mark.parametrize("word", ["go on", "None", False, 0, ""])
def test_nothing_but_none_lets_a_run_go_on(word):
    said = stopping.check_stop_check(lambda *all: stop_check(*all) or word)
    assert said.endswith(f"gives {word!r}")


def test_half_an_id_is_no_id(model):
    def first_moved(forward, ids, k, new_id):
        changed = ids.clone()
        changed[0, k] = new_id
        return (forward(changed) != forward(ids)).any(-1)[0].nonzero()[0].item() + 0.5

    def padded(rows, pad_id):
        width = max(map(len, rows))
        ids = torch.tensor([[pad_id] * (width - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
        return ids + 0.9, mask

    inputs = random_inputs(4)
    ids = [index + 0.5 for index in decode.greedy_ids(model, inputs, 5)]
    assert "one position" in autoregression.check_first_moved(first_moved)
    assert "a list of ids" in decode.check_decode_loop(lambda *_: ids, model, inputs)
    assert "return ids" in memory_accounting.check_predictions(
        lambda hidden, W: (hidden @ W.T).argmax(-1) + 0.5
    )
    assert "return ids" in prefill_checks.check_next_token(lambda z: z[:, -1].argmax(-1) + 0.5)
    assert "a list of ids" in whole_loop.check_uncached_generate(lambda *_: [3.5], model, [1], [3])
    assert "whole numbers" in model_inputs.check_pad(padded)


@pytest.mark.parametrize(
    "predictions",
    [
        lambda hidden, W: (hidden.numpy() @ W.numpy().T).argmax(-1),
        lambda hidden, W: [row.index(max(row)) for row in [(W @ h).tolist() for h in hidden]],
    ],
)
def test_all_logits_are_seen_in_arrays_and_lists_too(predictions):
    assert "take few rows" in memory_accounting.check_predictions(predictions)


def test_what_is_right_does_not_come_from_inputs_that_a_function_has_changed():
    def zeroed(hidden, W):
        W.zero_()
        return torch.zeros(len(hidden), dtype=torch.long)

    def uniform(logits, ids, length=1):
        logits.zero_()
        return -torch.tensor(logits.shape[-1]).log() * (ids.shape[1] - length)

    def first_id(logits):
        logits.zero_()[:, -1, 2] = 1.0
        return [2] * len(logits)

    assert "the first are" in memory_accounting.check_predictions(zeroed)
    assert "Not yet" in autoregression.check_log_probability(uniform)
    assert "Not yet" in greedy_decoding.check_log_probability(uniform)
    assert "the best next tokens" in prefill_checks.check_next_token(first_id)


@pytest.mark.parametrize(("layers", "parts"), [((0, 1), (1,)), ((0, 1), (0,)), ((-1,), (0, 1))])
def test_the_past_is_safe_in_keys_and_values_of_every_layer(layers, parts):
    @torch.inference_mode()
    def past_is_safe(model, ids):
        short = model(input_ids=ids[:, :-1], use_cache=True).cache
        full = model(input_ids=ids, use_cache=True).cache
        return all(
            torch.allclose(
                cached_keys_and_values(short, layer)[part],
                cached_keys_and_values(full, layer)[part][:, :, :-1],
                atol=1e-3,
            )
            for layer in layers
            if layer < model.config.num_hidden_layers
            for part in parts
        )

    assert "of every layer" in kv_cache.check_past_is_safe(past_is_safe)


def text(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda t, ids, eos: (text(t, ids), ids[-1] == t.eos_token_id), "one of several"),
        (lambda t, ids, eos: (text(t, ids), bool(eos & set(ids))), "was cut off"),
        (lambda t, ids, eos: (text(t, ids).strip(), ids[-1] in eos), "yours is 'Soup"),
        (lambda t, ids, eos: (text(t, ids), int(ids[-1] in eos)), "True or False"),
    ],
)
def test_the_users_text_is_whole_and_any_eos_at_its_end_counts(function, said, tokenizer):
    assert said in stopping.check_user_text(function, tokenizer)


@pytest.mark.parametrize("wrong", [-1e300, -1e9])
def test_a_large_negative_number_is_not_infinity(wrong):
    mask = lambda n: torch.full((n, n), wrong, dtype=torch.float64).triu(1)  # noqa: E731
    assert "M is not" in autoregression.check_causal_mask(mask)


def test_what_is_no_real_number_is_not_read_as_one():
    def log_p(logits, ids, length=1):
        return logits[0, length - 1 : -1].log_softmax(-1).gather(1, ids[0, length:, None]).sum()

    def complex_scale(values):
        codes, scale = quantise(values)
        return codes, scale.to(torch.complex64)

    def negative_scale(values):
        codes, scale = quantise(values)
        return codes, torch.where(values.abs().amax(-1, keepdim=True) > 0, scale, -1.0)

    def nan_for_yes(mask):
        length = mask.shape[1]
        looks = torch.ones(length, length).tril().bool() & mask.bool()[:, None]
        return torch.where(looks, float("nan"), 0.0)

    for check in (autoregression.check_log_probability, greedy_decoding.check_log_probability):
        assert "one number" in check(lambda *all: complex(log_p(*all)))
        assert "one number" in check(lambda *all: str(float(log_p(*all))))
    assert "real numbers" in number_formats.check_quantise(complex_scale)
    assert "above 0" in number_formats.check_quantise(negative_scale)
    assert "not a number (NaN)" in model_inputs.check_may_look(nan_for_yes)


def test_the_id_that_is_asked_for_is_the_one_that_is_put_in():
    def with_id_0(forward, ids, k, new_id):
        changed = ids.clone()
        changed[0, k] = 0
        return (forward(changed) != forward(ids)).any(-1)[0].nonzero()[0].item()

    assert "is it `new_id`" in autoregression.check_first_moved(with_id_0)


def test_only_the_last_position_chooses_the_next_token():
    later = lambda logits: logits[:, 1:].amax(1).argmax(-1)  # noqa: E731
    assert "before the last one" in prefill_checks.check_next_token(later)


def test_only_a_first_system_message_keeps_the_default_away():
    anywhere = lambda turns: len(turns) + ("system" not in {t["role"] for t in turns}) + 1  # noqa: E731
    assert "the first one counts" in chat_template.check_turn_starts(anywhere)


def test_contents_keep_their_spaces():
    def stripped(messages):
        form = "<|im_start|>{}\n{}<|im_end|>\n"
        turns = [form.format(turn["role"], turn["content"].strip()) for turn in messages]
        return "".join(turns) + "<|im_start|>assistant\n"

    assert "as it is" in chat_template.check_render(stripped)


def test_a_word_between_brackets_is_no_control_token_yet():
    brackets = lambda _, text: bool(re.search(r"<[^<> ]+>", text))  # noqa: E731
    said = chat_template.check_spells_control_token(brackets, tiny_tokenizer())
    assert "not each word between brackets" in said


@pytest.mark.parametrize("no", [0, [], None, ""])
def test_only_false_says_that_a_file_does_not_fit_together(no, model):
    record = run_record(generate(model, tiny_tokenizer(), "soup", max_new_tokens=3), model)
    said = reference_run.check_consistency(lambda given: given == record or no, record)
    assert "return" in said  # `True or False`, or, after None, anything


def test_a_word_of_one_symbol_that_is_lost_is_shown():
    assert "should give ['x'], you return []" in tokenizer.check_bpe(_lost)


def _lost(symbols, rank):
    right = {tuple(given): tokens for given, order, tokens in tokenizer.WORDS}
    return right[tuple(symbols)] if rank else []
