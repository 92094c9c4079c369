"""Joint probabilities are products along a path, and the search for the highest one is exact."""

import itertools
import math

import pytest
import torch
from tests.tiny import random_inputs, tiny_model

from inside_generate import append_one, decode_step, prefill
from inside_generate.joint import (
    greedy_continuation,
    most_probable_continuation,
    sequence_log_probability,
)

VOCABULARY = 24  # small enough to try every pair and every triple

STARTS = list(itertools.product((0, 1, 2), (3, 4)))  # a model's seed, a prompt's length


def small(seed):
    return tiny_model(seed, vocab_size=VOCABULARY, pad_token_id=0, eos_token_id=1)


def prompt(length, seed=0):
    return random_inputs(length, seed)["input_ids"] % VOCABULARY


@torch.inference_mode()
def table_of_all(model, ids, length):
    """Log-probability of every continuation, [V, V, …], by full forwards without a cache."""
    beginnings = list(itertools.product(range(VOCABULARY), repeat=length - 1))
    rows = torch.cat([ids.repeat(len(beginnings), 1), torch.tensor(beginnings).long()], dim=-1)
    log_p = model(rows, use_cache=False).logits[:, ids.shape[1] - 1 :].log_softmax(-1)
    total = log_p[:, -1]  # [V ** (length − 1), V]
    for place in range(length - 1):
        chosen = rows[:, ids.shape[1] + place, None]
        total = total + log_p[:, place].gather(1, chosen)
    return total.view([VOCABULARY] * length)


def path(table, flat):
    return tuple(int(index) for index in torch.unravel_index(flat, table.shape))


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize(("seed", "start"), STARTS)
def test_the_search_finds_what_trying_every_continuation_finds(seed, start, length):
    model, ids = small(seed), prompt(start)
    table = table_of_all(model, ids, length)
    two = table.flatten().topk(2)
    best = most_probable_continuation(model, ids, length)
    assert best.continuation.token_ids == path(table, two.indices[0])
    assert best.runner_up.token_ids == path(table, two.indices[1])
    assert best.continuation.log_probability == pytest.approx(two.values[0].item(), abs=1e-4)
    assert best.margin == pytest.approx((two.values[0] - two.values[1]).item(), abs=1e-4)


def test_greedy_is_not_always_the_most_probable_and_never_above_it():
    beaten = 0
    for seed, start in STARTS:
        model, ids = small(seed), prompt(start)
        ours, best = greedy_continuation(model, ids, 2), most_probable_continuation(model, ids, 2)
        assert ours.log_probability <= best.continuation.log_probability + 1e-6
        beaten += ours.token_ids != best.continuation.token_ids
    assert beaten


def test_the_search_tries_exactly_the_first_tokens_that_could_win_or_come_second():
    model, ids = small(1), prompt(4)
    best = most_probable_continuation(model, ids, 2)
    first = prefill(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}).logits[0]
    could = first.log_softmax(-1) > best.runner_up.log_probability
    assert best.expanded == could.sum() < VOCABULARY


def test_greedys_path_is_an_argmax_at_each_step():
    model, ids = small(2), prompt(5)
    found = greedy_continuation(model, ids, 4)
    with torch.inference_mode():
        for place, token_id in enumerate(found.token_ids):
            before = torch.cat([ids, torch.tensor([found.token_ids[:place]]).long()], dim=-1)
            assert model(before, use_cache=False).logits[0, -1].argmax() == token_id


@pytest.mark.parametrize("length", [1, 2, 5])
def test_one_forward_gives_the_sum_that_step_after_step_gives(length):
    model, ids = small(0), prompt(6)
    found = greedy_continuation(model, ids, length)
    total = sequence_log_probability(model, ids, found.token_ids)
    assert total == pytest.approx(found.log_probability, abs=1e-4)
    assert found.probability == pytest.approx(math.exp(total), rel=1e-3)


def test_a_sequences_probability_is_the_product_along_its_path():
    model, ids, continuation = small(0), prompt(6), [7, 3, 11]
    mask = torch.ones_like(ids)
    step, product = prefill(model, {"input_ids": ids, "attention_mask": mask}), 1.0
    for token_id in continuation:
        product *= step.logits[0].softmax(-1)[token_id].item()
        mask = append_one(mask)
        step = decode_step(model, torch.tensor([[token_id]]), step.cache, mask)
    total = sequence_log_probability(model, ids, continuation)
    assert math.exp(total) == pytest.approx(product, rel=1e-4)


def test_a_margin_of_a_tie_is_zero_and_the_lower_id_comes_first():
    model, ids = small(0), prompt(4)
    with torch.no_grad():
        model.lm_head.weight.zero_()
    best = most_probable_continuation(model, ids, 1)
    assert best.margin == 0
    assert (best.continuation.token_ids, best.runner_up.token_ids) == ((0,), (1,))
    assert best.expanded == 2


@pytest.mark.parametrize("search", [most_probable_continuation, greedy_continuation])
@pytest.mark.parametrize("length", [0, -1, 1.5, True, "2"])
def test_a_length_that_is_no_whole_number_above_0_is_refused(model, search, length):
    with pytest.raises(ValueError, match=f"length must be .* not {length!r}"):
        search(model, prompt(3), length)


def test_a_prompt_that_is_no_single_row_is_refused(model):
    for bad in (prompt(3)[0], prompt(3).repeat(2, 1)):
        for call in (most_probable_continuation, greedy_continuation):
            with pytest.raises(
                ValueError, match=r"one prompt at a time, \[1, L\] with L ≥ 1, not \["
            ):
                call(model, bad, 2)
        with pytest.raises(ValueError, match="one prompt at a time"):
            sequence_log_probability(model, bad, [1])


@pytest.mark.parametrize("bad", [[], [-1], [3, 352]])
def test_a_continuation_that_cannot_be_is_refused(model, bad):
    named = r"not \[\]" if not bad else f"token id {bad[-1]} is not"
    with pytest.raises(ValueError, match=named):
        sequence_log_probability(model, prompt(3), bad)


@pytest.mark.parametrize(
    "bad",
    [torch.ones(1, 2), torch.ones(1, 2, dtype=torch.bool), [[1, 2]], torch.zeros(1, 0).long()],
)
def test_a_prompt_is_a_row_of_whole_numbers(model, bad):
    for call in (most_probable_continuation, greedy_continuation, sequence_log_probability):
        with pytest.raises(ValueError, match=r"must be a tensor of int64|L ≥ 1, not \[1, 0\]"):
            call(model, bad, [1] if call is sequence_log_probability else 1)


@pytest.mark.parametrize("bad", [[1.5], [True], ["a"], [[1]], {1, 2}, b"ab", "ab", None, 5])
def test_a_continuation_is_a_row_of_whole_numbers(model, bad):
    with pytest.raises(ValueError, match=r"must be a whole number, not|is a row of ids, not"):
        sequence_log_probability(model, prompt(3), bad)


def test_an_id_beyond_any_integer_type_is_named(model):
    with pytest.raises(ValueError, match=f"token id {10**30} is not"):
        sequence_log_probability(model, prompt(3), [10**30])


@pytest.mark.parametrize("logit", [math.nan, math.inf, -math.inf])
def test_logits_that_give_no_probabilities_are_refused(logit):
    model, ids = small(0), prompt(3)
    model.lm_head.register_forward_hook(lambda *call: torch.full_like(call[2], logit))
    for call in (most_probable_continuation, greedy_continuation, sequence_log_probability):
        with pytest.raises(ValueError, match="the logits give no probabilities"):
            call(model, ids, [1] if call is sequence_log_probability else 1)


def test_a_vocabulary_of_one_leaves_no_choice():
    model = tiny_model(vocab_size=1, eos_token_id=0, pad_token_id=0)
    with pytest.raises(ValueError, match="2 tokens, not a vocabulary of 1"):
        most_probable_continuation(model, torch.zeros(1, 2).long(), 1)
