"""The ladder's rungs: the loop's numbers on each, nothing left from the run before, exactness."""

import math

import pytest
import torch
from tests.tiny import WINDOW, random_inputs, tiny_model

from inside_generate.disagreement import forced_at_once
from inside_generate.ladder import (
    Compiled,
    Dynamic,
    Int8,
    NoCache,
    Static,
    agreement,
    forced,
    free,
    held_bytes,
    rungs,
)
from inside_generate.loop import cached_keys_and_values
from inside_generate.step_bytes import step_bytes, step_weight_bytes

SLOTS = 40
IDS = (5, 17, 300, 42, 7, 7, 211, 64)
KINDS = ["no_cache", "static", "compiled"]
NAN = float("nan")


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    """What a compiler makes of the step is for ``test_ladder_compiled``; here it runs as it is."""
    monkeypatch.setattr(rungs, "compiled", lambda step, model: step)


def ticks():
    """Return a clock that moves on by one second a look."""
    times = iter(range(10**6))
    return lambda: float(next(times))


def rung_of(kind, model, slots=SLOTS):
    makers = {
        "no_cache": lambda: NoCache(model),
        "dynamic": lambda: Dynamic(model),
        "static": lambda: Static(model, slots),
        "compiled": lambda: Compiled(model, slots),
        "int8": lambda: Int8(model, slots),
    }
    return makers[kind]()


# --- the same numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_each_rung_gives_the_loops_logits_and_answers_the_same(kind, tied):
    model, inputs = tiny_model(tie_word_embeddings=tied), random_inputs(12)
    loop, rung = Dynamic(model), rung_of(kind, model)
    torch.testing.assert_close(
        forced(rung, inputs, IDS), forced(loop, inputs, IDS), atol=1e-3, rtol=0
    )
    assert free(rung, inputs, 20, ticks()).ids == free(loop, inputs, 20, ticks()).ids


def test_forced_logits_are_those_of_one_forward_over_prompt_and_answer(model):
    whole = forced_at_once(model, random_inputs(12), torch.tensor([IDS]))[0]
    found = forced(Dynamic(model), random_inputs(12), IDS)
    torch.testing.assert_close(found, whole, atol=1e-3, rtol=0)


def test_the_loops_answer_is_that_of_generate(model):
    inputs = random_inputs(12)
    ids = model.generate(**inputs, max_new_tokens=20, do_sample=False, eos_token_id=None)
    assert list(free(Dynamic(model), inputs, 20, ticks()).ids) == ids[0, 12:].tolist()


@pytest.mark.parametrize("kind", ["dynamic", *KINDS, "int8"])
def test_nothing_is_left_from_the_run_before(kind, model):
    first, second = random_inputs(12, seed=1), random_inputs(7, seed=2)
    rung = rung_of(kind, model)
    forced(rung, first, IDS)
    again = forced(rung, second, IDS)
    fresh = forced(rung_of(kind, model), second, IDS)
    assert torch.equal(again, fresh)


def test_a_run_that_was_broken_off_leaves_nothing_either(model):
    rung = Static(model, SLOTS)
    rung.start(random_inputs(12, seed=1))
    with pytest.raises(ValueError, match="token id"):
        rung.start({**random_inputs(3), "input_ids": torch.tensor([[1, 10**6, 2]])})
    expected = forced(Static(model, SLOTS), random_inputs(9), IDS)
    assert torch.equal(forced(rung, random_inputs(9), IDS), expected)


def test_prefill_and_decode_of_the_8_bit_rung_are_one_model(model, monkeypatch):
    """The written-out product of a step, and the prompt's: the same integers and scales."""
    prompt = random_inputs(12)
    longer = torch.cat([prompt["input_ids"], torch.tensor([IDS[:5]])], dim=-1)
    at_once = Int8(model, SLOTS).start({"input_ids": longer, "attention_mask": longer * 0 + 1})
    rung = Int8(model, SLOTS)
    rung.start(prompt)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    for token in IDS[:5]:
        logits = rung.step(torch.tensor([[token]]))
    torch.testing.assert_close(logits, at_once, atol=1e-3, rtol=0)
    assert (logits - forced(Dynamic(model), prompt, (*IDS[:5], 0))[-1]).abs().max() > 1e-2


# --- room -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["static", "compiled"])
def test_a_static_rung_takes_as_many_tokens_as_it_has_slots_and_refuses_one_more(kind, model):
    rung = rung_of(kind, model, slots=15)
    expected = forced(Dynamic(model), random_inputs(12), IDS[:4])
    torch.testing.assert_close(
        forced(rung, random_inputs(12), IDS[:4]), expected, atol=1e-3, rtol=0
    )  # 12 and 3: the last is never fed in
    with pytest.raises(ValueError, match="15 slots and 16 tokens"):
        rung.step(torch.tensor([[1]]))
    assert torch.equal(
        forced(rung, random_inputs(15), IDS[:1])[0], rung.start(random_inputs(15))[0]
    )
    with pytest.raises(ValueError, match="15 slots and 16 tokens"):
        rung.start(random_inputs(16))


def test_more_slots_than_the_model_has_positions_are_refused_at_once(model):
    Static(model, WINDOW)
    with pytest.raises(ValueError, match=f"{WINDOW + 1} tokens are more than the model's {WINDOW}"):
        Static(model, WINDOW + 1)
    with pytest.raises(ValueError, match="slots must be a whole number of at least 1, not 0"):
        Static(model, 0)


# --- what a rung reads and holds ------------------------------------------------------------------


def test_a_step_reads_what_is_cached_and_a_static_one_every_slot(model):
    read = {kind: rung_of(kind, model).positions_read(9) for kind in ("dynamic", *KINDS, "int8")}
    assert read == {"dynamic": 9, "no_cache": 0, "static": SLOTS, "compiled": SLOTS, "int8": SLOTS}


def test_memory_is_the_storage_of_weights_and_cache_each_counted_once():
    for tied in (False, True):
        model = tiny_model(tie_word_embeddings=tied)
        weights = sum(tensor.nbytes for tensor in [*model.parameters(), *model.buffers()])
        for kind in ("no_cache", "dynamic", "static", "compiled"):
            rung = rung_of(kind, model)
            free(rung, random_inputs(12), 3, ticks())
            cached = 0
            if hasattr(rung, "cache"):
                pairs = [cached_keys_and_values(rung.cache, layer) for layer in range(2)]
                cached = sum(tensor.nbytes for pair in pairs for tensor in pair)
            assert held_bytes(rung) == weights + cached, kind
    assert cached == 2 * 2 * SLOTS * 2 * 16 * 4  # the last one: compiled


def test_a_view_of_a_larger_memory_counts_as_what_it_keeps_alive():
    one, other = torch.zeros(100)[:10], torch.zeros(8)
    assert rungs._bytes_of([one, one[2:], other, other.view(2, 4)]) == 400 + 32


def test_the_8_bit_rung_holds_and_reads_about_a_quarter_of_float32_matrices(model):
    rung = Int8(model, SLOTS)
    free(rung, random_inputs(12), 2, ticks())
    matrices = sum(p.nbytes for name, p in model.named_parameters() if name.endswith("proj.weight"))
    saved = step_weight_bytes(model) - step_weight_bytes(rung.model)
    head = model.lm_head.weight.nbytes
    assert saved == pytest.approx(0.75 * (matrices + head), rel=0.03)  # scales take a little
    assert step_bytes(rung.model, SLOTS) < step_bytes(model, SLOTS)


# --- runs -----------------------------------------------------------------------------------------


def test_a_free_run_counts_the_first_token_apart(model):
    run = free(Dynamic(model), random_inputs(5), 4, ticks())
    assert len(run.ids) == len(run.seconds) == 4
    assert (run.ttft_s, run.tpot_s) == (1.0, 1.0)


def test_a_run_of_one_token_has_no_time_per_token(model):
    run = free(Dynamic(model), random_inputs(5), 1, ticks())
    with pytest.raises(ValueError, match="at least 2 tokens"):
        run.tpot_s  # noqa: B018
    with pytest.raises(ValueError, match="tokens must be"):
        free(Dynamic(model), random_inputs(5), 0, ticks())


def test_a_free_run_goes_on_past_an_eos():
    model = tiny_model(generation={"eos_token_id": list(range(352))})
    assert len(free(Dynamic(model), random_inputs(5), 6, ticks()).ids) == 6


# --- exactness ------------------------------------------------------------------------------------

LOGITS = torch.arange(200.0).view(2, 100).flip(-1)  # the best 20 of each row come first


def compared(other, ids=((1, 2), (1, 2)), dtype=torch.float32):
    return agreement(LOGITS, ids[0], other, ids[1], dtype)


def test_logits_within_the_tolerance_are_exact():
    found = compared(LOGITS + 9e-4)
    assert (found.exact, found.tolerance) == (True, 1e-3)
    assert found.largest_difference == pytest.approx(9e-4, rel=0.05)
    assert (found.first_divergence, found.margin) == (None, None)


@pytest.mark.parametrize("row", [0, 1])
def test_one_good_logit_beyond_the_tolerance_at_any_step_is_not_exact(row):
    other = LOGITS.clone()
    other[row, 19] += 2e-3
    assert not compared(other).exact
    assert compared(other, dtype=torch.bfloat16).exact


def test_a_poor_logit_counts_only_once_it_would_be_among_the_best():
    other = LOGITS.clone()
    other[0, 90] += 5
    found = compared(other)
    assert (found.exact, found.largest_difference, found.largest_of_all) == (True, 0.0, 5.0)
    other[0, 90] += 95
    assert not compared(other).exact


@pytest.mark.parametrize("wrong", [NAN, math.inf, -math.inf])
def test_a_logit_that_is_no_number_is_not_exact(wrong):
    other = LOGITS.clone()
    other[1, 3] = wrong
    assert not compared(other).exact


def test_where_free_runs_part_is_told_with_the_margin_there():
    reference = torch.tensor([[0.0, 3.0, 1.0], [5.0, 4.5, 0.0], [0.0, 9.0, 1.0]])
    found = agreement(reference, (1, 0, 1), reference, (1, 1, 2), torch.float32)
    assert (found.exact, found.first_divergence, found.margin) == (True, 2, 0.5)


def test_logits_of_another_vocabulary_or_number_of_tokens_are_refused():
    for other in (LOGITS[:1], LOGITS[:, :50]):
        with pytest.raises(ValueError, match="both must be"):
            compared(other)
