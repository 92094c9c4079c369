"""Sweeps on a clock that is ours: warm-up, turns, restored caches, and fits that find the truth."""

from types import SimpleNamespace

import pytest
import torch
from tests.tiny import tiny_model

from inside_generate import sweeps
from inside_generate.flops import layer_matrix_numbers
from inside_generate.sweeps import (
    decode_seconds,
    fit_line,
    fit_prefill,
    lengths_for,
    medians,
    prefill_seconds,
    rows_for,
    time_in_turn,
    with_few_layers,
)


class Hand:
    """A clock that stands still until somebody moves it."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Hand()


@pytest.fixture
def moved(clock, forwards):
    """A tiny model whose forward takes a second for each token that it is given or has cached."""
    model = tiny_model()

    def advance(module, args, kwargs):
        clock.now_s += kwargs["attention_mask"].shape[1]

    model.register_forward_pre_hook(advance, with_kwargs=True)
    return model, forwards(model)


def test_the_warm_up_is_run_and_not_counted(clock):
    costs = iter([100.0, 1.0, 3.0, 2.0])

    def run():
        clock.now_s += next(costs)

    assert time_in_turn({7: run}, 3, clock) == {7: [1.0, 3.0, 2.0]}
    assert medians({7: [1.0, 3.0, 2.0], 8: [5.0]}) == [2.0, 5.0]


def test_runs_take_turns_forwards_and_backwards(clock):
    seen = []
    time_in_turn({n: lambda n=n: seen.append(n) for n in (1, 2, 3)}, 2, clock)
    assert seen == [1, 2, 3, 3, 2, 1, 1, 2, 3]


def test_restoring_is_called_for_each_run_and_not_timed(clock):
    seen = []

    def restore(key):
        seen.append(key)
        clock.now_s += 100.0

    seconds = time_in_turn({4: lambda: None, 5: lambda: None}, 2, clock, restore)
    assert seconds == {4: [0.0, 0.0], 5: [0.0, 0.0]}
    assert seen == [4, 5, 5, 4, 4, 5]


def test_no_repeats_are_refused(clock):
    with pytest.raises(ValueError, match="at least 1, not 0"):
        time_in_turn({}, 0, clock)


def test_prefill_is_timed_for_each_length_with_one_row_of_logits(moved, clock):
    model, calls = moved
    assert prefill_seconds(model, (3, 8), 2, clock) == {3: [3.0] * 2, 8: [8.0] * 2}
    assert [tuple(call.input_ids.shape) for call in calls] == [(1, n) for n in (3, 8, 8, 3, 3, 8)]
    assert {call.head_positions for call in calls} == {1}


def test_each_timed_decode_step_sees_the_same_context(moved, clock):
    model, calls = moved
    assert decode_seconds(model, (4, 9), 3, batch=2, clock=clock) == {4: [5.0] * 3, 9: [10.0] * 3}
    steps = calls[2:]  # after the prefill of one token for each cache
    assert [tuple(call.input_ids.shape) for call in steps] == [(2, 1)] * 8
    assert {int(call.position_ids[0, 0]) for call in steps} == {4, 9}


def test_a_line_is_found():
    fit = fit_line([10, 20, 40], [1.5, 2.0, 3.0])
    assert (fit.constant_s, fit.slope_s_per_token) == pytest.approx((1.0, 0.05))
    assert fit.seconds(100) == pytest.approx(6.0)


@pytest.mark.parametrize("truth", [(0.5, 1e-3, 2e-6), (0.0, 1e-3, 0.0), (0.25, 0.0, 1e-6)])
def test_constant_linear_and_quadratic_part_are_found(truth):
    lengths = [64, 128, 256, 512, 16_384]
    seconds = [truth[0] + truth[1] * n + truth[2] * n**2 for n in lengths]
    fit = fit_prefill(lengths, seconds)
    found = (fit.constant_s, fit.linear_s_per_token, fit.quadratic_s_per_token2)
    assert found == pytest.approx(truth, abs=1e-12)
    assert sum(fit.parts(1024)) == pytest.approx(truth[0] + 1024 * truth[1] + 1024**2 * truth[2])


def test_no_part_of_a_prefills_time_is_negative():
    lengths = [100, 200, 300, 400]  # a bent line that a plain fit would give a negative part
    fit = fit_prefill(lengths, [1.0, 2.0, 2.9, 3.7])
    assert fit.quadratic_s_per_token2 == 0.0
    assert min(fit.constant_s, fit.linear_s_per_token) >= 0
    assert fit_prefill(lengths, [1.0, 4.0, 9.0, 16.0]).parts(100) == pytest.approx((0, 0, 1))


def test_too_few_points_are_refused():
    with pytest.raises(ValueError, match=r"at least 3 different lengths, not 2 times .* \[1, 2\]"):
        fit_prefill([1, 2], [0.1, 0.2])
    with pytest.raises(ValueError, match="at least 2"):
        fit_line([5, 5], [0.1, 0.2])
    with pytest.raises(ValueError, match="not 1 times"):
        fit_line([5, 6], [0.1])


# --- lengths --------------------------------------------------------------------------------------


def stand_in_for(config, device, **changes):
    config = SimpleNamespace(**{**config.to_dict(), **changes})
    return SimpleNamespace(config=config, device=torch.device(device), dtype=torch.bfloat16)


def test_lengths_fit_the_models_positions_with_room_for_the_step(model):
    window = model.config.max_position_embeddings
    lengths = lengths_for(model)
    assert max(*lengths.prefill, *lengths.few_layers) <= window
    assert lengths.context[-1] == window - 1
    assert lengths.batch == 1


def test_a_gpu_gets_longer_prompts_and_as_many_rows_as_fit(model, monkeypatch):
    gpu = stand_in_for(model.config, "cuda", max_position_embeddings=32_768)
    row = sweeps.kv_cache_bytes(gpu.config, 16_384)
    for free, rows in ((8 * 5 * row, 5), (row, 1), (10_000 * row, 128)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, 0))
        assert lengths_for(gpu).batch == rows
    assert lengths_for(gpu).prefill[-1] == lengths_for(gpu).context[-1] == 16_384
    assert lengths_for(gpu).few_layers == lengths_for(gpu).prefill


def test_a_gpu_gets_larger_batches_and_each_sweep_begins_with_one_row(model):
    on_gpu = rows_for(stand_in_for(model.config, "cuda"))
    assert rows_for(model)[0] == on_gpu[0] == 1
    assert rows_for(model)[-1] < on_gpu[-1]


def test_few_layers_are_like_those_of_the_model_and_the_model_is_left_alone(model):
    layers = model.config.num_hidden_layers
    small = with_few_layers(model, 1)
    assert (small.config.num_hidden_layers, small.config.vocab_size) == (1, 1024)
    assert layer_matrix_numbers(small.config) == layer_matrix_numbers(model.config)
    assert (small.dtype, small.device, small.training) == (model.dtype, model.device, False)
    assert small.name_or_path == ""
    assert prefill_seconds(small, (3,), repeats=1).keys() == {3}
    assert model.config.num_hidden_layers == layers


@pytest.mark.parametrize("window", [9, 20, 63, 100])
def test_a_small_window_has_lengths_that_differ_and_are_enough_for_the_fits(model, window):
    lengths = lengths_for(stand_in_for(model.config, "cpu", max_position_embeddings=window))
    for some in (lengths.prefill, lengths.few_layers, lengths.context):
        assert 0 < min(some) <= max(some) <= window
        assert len(some) == len(set(some)) >= 3


def test_a_window_that_is_too_small_to_measure_is_named(model):
    with pytest.raises(ValueError, match="at least 9 positions, and the model has 8"):
        lengths_for(stand_in_for(model.config, "cpu", max_position_embeddings=8))


# --- what cannot be measured or fitted ------------------------------------------------------------


@pytest.mark.parametrize("repeats", [-1, 1.5, True, None, "2"])
def test_repeats_are_a_count(clock, repeats):
    with pytest.raises(ValueError, match=f"repeats must be .* at least 1, not {repeats!r}"):
        time_in_turn({1: lambda: None}, repeats, clock)


@pytest.mark.parametrize("length", [0, -1, 1.5, True, "a"])
def test_lengths_are_counts(model, clock, length):
    for sweep in (prefill_seconds, decode_seconds):
        with pytest.raises(ValueError, match=f"length must be .* at least 1, not {length!r}"):
            sweep(model, [length], 1, clock=clock)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0, "a", None])
def test_a_reading_that_is_no_time_is_refused(bad, capfd):
    for call in (
        lambda: fit_line([1, 2, 3], [1.0, bad, 2.0]),
        lambda: fit_prefill([1, 2, 3], [1.0, bad, 2.0]),
        lambda: fit_line([1, bad, 3], [1.0, 1.5, 2.0]),
        lambda: medians({5: [1.0, bad, 2.0]}),
    ):
        with pytest.raises(ValueError, match=r"(seconds|lengths|readings) must be"):
            call()
    assert capfd.readouterr().err == ""


def test_a_time_of_0_has_no_relative_distance():
    with pytest.raises(ValueError, match=r"above 0, not 0\.0"):
        fit_prefill([1, 2, 3], [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="readings: at least 1 needed"):
        medians({5: []})


def test_a_fit_of_tensors_is_made_of_plain_numbers():
    fit = fit_prefill(torch.tensor([1, 2, 4]), torch.tensor([1.0, 2.0, 4.0]))
    assert {type(part) for part in fit.parts(1.0)} == {float}


@pytest.mark.parametrize("layers", [0, -1, 3, True, "2", None])
def test_a_model_has_no_more_layers_than_it_has(model, layers):
    with pytest.raises(ValueError, match="layers"):
        with_few_layers(model, layers)


def test_a_length_beyond_the_window_is_refused_before_memory_is_asked_for(model):
    """A prompt of 10^15 ids would not fit into any machine."""
    with pytest.raises(ValueError, match="1000000000000000 tokens are more than the model's 128"):
        prefill_seconds(model, [10**15], 1)
