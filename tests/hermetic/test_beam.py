"""Beam search equals the library's, and lies between greedy and the exact search."""

import itertools

import pytest
import torch
from tests.tiny import random_inputs, tiny_model

from inside_generate import append_one, decode_step, prefill
from inside_generate.beam import beam_search, reorder_rows
from inside_generate.joint import (
    greedy_continuation,
    most_probable_continuation,
    sequence_log_probability,
)

VOCABULARY = 24  # so few that EOS comes up by chance


def small(seed, **config):
    return tiny_model(seed, vocab_size=VOCABULARY, pad_token_id=0, eos_token_id=1, **config)


def prompt(length=4, seed=0):
    return random_inputs(length, seed)["input_ids"] % VOCABULARY


def library(model, ids, beams, limit, stops, length_penalty):
    """The library's sequences without what follows EOS, and their scores."""
    found = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        num_beams=beams,
        num_return_sequences=beams,
        do_sample=False,
        early_stopping=False,
        length_penalty=length_penalty,
        repetition_penalty=1.0,
        max_new_tokens=limit,
        eos_token_id=stops or None,
        return_dict_in_generate=True,
        output_scores=True,
    )
    rows = [row[ids.shape[1] :].tolist() for row in found.sequences]
    ends = [[n + 1 for n, token in enumerate(row) if token in stops] for row in rows]
    cut = [tuple(row[: end[0]] if end else row) for row, end in zip(rows, ends, strict=True)]
    return cut, found.sequences_scores.tolist()


def endless(seed, **config):
    model = small(seed, **config)
    model.generation_config.eos_token_id = None
    return model


# --- equal to generate() --------------------------------------------------------------------------


@pytest.mark.parametrize(("beams", "limit"), [(2, 1), (2, 6), (3, 8), (6, 5)])
@pytest.mark.parametrize("seed", [0, 1])
def test_beams_of_fixed_length_equal_the_librarys(seed, beams, limit):
    model, ids = endless(seed), prompt(3 + seed)
    ours = beam_search(model, ids, beams, limit)
    theirs, scores = library(model, ids, beams, limit, [], 1.0)
    assert [found.token_ids for found in ours] == theirs
    assert [found.log_probability / limit for found in ours] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("length_penalty", [1.0, 0.0, 2.5, -1.0])
@pytest.mark.parametrize("stops", [[3], [3, 5, 8]], ids=str)
def test_beams_that_end_equal_the_librarys(stops, length_penalty):
    lengths = set()
    for seed in range(3):
        model, ids = endless(seed), prompt(2, seed)
        ours = beam_search(model, ids, 3, 8, eos_token_ids=stops, length_penalty=length_penalty)
        theirs, scores = library(model, ids, 3, 8, stops, length_penalty)
        assert [found.token_ids for found in ours] == theirs
        found = [f.log_probability / len(f.token_ids) ** length_penalty for f in ours]
        assert found == pytest.approx(scores, abs=1e-4)
        lengths.update(map(len, theirs))
    assert len(lengths) > 1, "few ended early: this would prove little"


def test_the_search_stops_as_soon_as_no_beam_could_be_better(forwards):
    model, stops = endless(0), [*range(0, VOCABULARY, 2)]
    calls = forwards(model)
    ours = beam_search(model, prompt(), 2, 20, eos_token_ids=stops, length_penalty=0.0)
    own = len(calls)
    theirs, _ = library(model, prompt(), 2, 20, stops, 0.0)
    assert [found.token_ids for found in ours] == theirs
    assert own == len(calls) - own < 20


# --- between greedy and exact ---------------------------------------------------------------------


def test_one_beam_is_greedy():
    model = small(0)
    (found,) = beam_search(model, prompt(), 1, 7)
    own = greedy_continuation(model, prompt(), 7)
    assert found.token_ids == own.token_ids
    assert found.log_probability == pytest.approx(own.log_probability, abs=1e-4)


def test_as_many_beams_as_tokens_are_exact_for_two_tokens():
    better = 0
    for seed, length in itertools.product((0, 1, 2), (3, 4)):
        model, ids = small(seed), prompt(length)
        found = beam_search(model, ids, VOCABULARY, 2)
        exact = most_probable_continuation(model, ids, 2)
        assert found[0].token_ids == exact.continuation.token_ids
        assert found[1].token_ids == exact.runner_up.token_ids
        better += found[0].token_ids != beam_search(model, ids, 1, 2)[0].token_ids
    assert better, "greedy was right each time: this would prove little"


def test_the_log_probability_is_that_of_one_forward_over_all():
    model, ids = small(2), prompt(5)
    for found in beam_search(model, ids, 3, 4):
        again = sequence_log_probability(model, ids, found.token_ids)
        assert found.log_probability == pytest.approx(again, abs=1e-4)


def test_continuations_come_best_first_and_are_all_different():
    found = beam_search(small(3), prompt(), 5, 4)
    assert sorted(found, key=lambda one: -one.log_probability) == found
    assert len({one.token_ids for one in found}) == 5


def test_more_beams_than_there_are_continuations_give_all_of_them():
    assert len(beam_search(small(0), prompt(), VOCABULARY + 9, 1)) == VOCABULARY
    assert len(beam_search(small(0), prompt(), 2 * VOCABULARY, 2)) == 2 * VOCABULARY


def test_where_every_token_ends_the_search_ends(forwards):
    model = small(0)
    calls = forwards(model)
    found = beam_search(model, prompt(), 2, 9, eos_token_ids=range(VOCABULARY))
    assert [len(one.token_ids) for one in found] == [1, 1]
    assert len(calls) == 1


def test_the_prompt_is_run_once_and_each_step_takes_one_token_a_beam(forwards):
    model = small(0)
    calls = forwards(model)
    beam_search(model, prompt(5), 3, 4)
    assert [list(call.input_ids.shape) for call in calls] == [[1, 5], [3, 1], [3, 1], [3, 1]]
    assert [call.attention_mask.shape[1] for call in calls] == [5, 6, 7, 8]


# --- the cache's rows -----------------------------------------------------------------------------


def test_reordered_rows_go_on_as_the_rows_they_were():
    model, ids = small(1), torch.cat([prompt(4, seed) for seed in range(3)])
    mask = torch.ones_like(ids)
    step, token = prefill(model, {"input_ids": ids, "attention_mask": mask}), ids[:, :1]
    once = prefill(model, {"input_ids": ids, "attention_mask": mask})
    straight = decode_step(model, token, once.cache, append_one(mask)).logits
    rows = [2, 0, 2, 1]
    reorder_rows(step.cache, rows)
    mask = torch.ones(4, 5, dtype=torch.long)
    again = decode_step(model, token[rows], step.cache, mask).logits
    torch.testing.assert_close(again, straight[rows], atol=1e-4, rtol=0)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"beams": 0}, "beams must be .*not 0"),
        ({"beams": 2.0}, "beams must be .*not 2.0"),
        ({"max_new_tokens": 0}, "at least 1, not 0"),
        ({"max_new_tokens": 126}, "4 prompt tokens and up to 126"),
        ({"prompt_ids": torch.ones(2, 3).long()}, r"not \[2, 3\]"),
        ({"length_penalty": float("nan")}, "length_penalty must be -10 to 10, not nan"),
        ({"length_penalty": 11}, "length_penalty must be -10 to 10, not 11"),
        ({"eos_token_ids": [-1]}, "not -1"),
    ],
    ids=str,
)
def test_what_cannot_be_searched_is_refused_with_the_value(bad, named):
    asked = {"prompt_ids": prompt(), "beams": 2, "max_new_tokens": 3} | bad
    with pytest.raises(ValueError, match=named):
        beam_search(small(0), **asked)
