"""The capacity estimate keeps to the bytes and operations that the other chapters count."""

import math

import pytest
import torch
from tests.tiny import tiny_config

from inside_generate import kv_cache_bytes, weight_bytes
from inside_generate.beyond.capacity import (
    Machine,
    capacity,
    requests_in_flight,
    rows_in_memory,
    step_times,
)
from inside_generate.flops import decode_flops
from inside_generate.reference import reference_config
from inside_generate.step_bytes import step_bytes_of

CONFIG = tiny_config()
WEIGHTS, ROW = weight_bytes(CONFIG), kv_cache_bytes(CONFIG, 64)
ROOMY = Machine(WEIGHTS + 100 * ROW + 1, 1e9, 1e12, spare=0.0)


def test_rows_fill_what_the_weights_leave():
    assert rows_in_memory(CONFIG, 64, ROOMY) == 100
    assert rows_in_memory(CONFIG, 128, ROOMY) == 50
    assert rows_in_memory(CONFIG, 64, Machine(WEIGHTS + ROW - 1, 1, 1, spare=0.0)) == 0
    assert rows_in_memory(CONFIG, 64, Machine(10, 1, 1)) == 0  # not even the weights


def test_a_spare_share_is_kept():
    machine = Machine(2 * (WEIGHTS + 10 * ROW) + 2, 1, 1, spare=0.5)
    assert rows_in_memory(CONFIG, 64, machine) == 10


def test_a_step_takes_what_reading_and_arithmetic_take():
    times = step_times(CONFIG, 64, 3, ROOMY, torch.float32)
    assert times["reading"] == step_bytes_of(CONFIG, 64, 3, torch.float32) / 1e9
    assert times["arithmetic"] == 3 * decode_flops(CONFIG, 64) / 1e12


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("flop_per_s", [1e9, 1e15])
def test_the_most_rows_keep_the_limit_and_one_more_does_not(tied, flop_per_s):
    config = tiny_config(tie_word_embeddings=tied)
    machine = Machine(1e12, 1e9, flop_per_s)
    limit = 20 * max(step_times(config, 64, 1, machine).values())
    found = capacity(config, 64, machine, limit)
    assert found.limit == "time"
    assert found.bound == ("arithmetic" if flop_per_s == 1e9 else "reading")
    at, beyond = (max(step_times(config, 64, found.rows + n, machine).values()) for n in (0, 1))
    assert at <= limit * (1 + 1e-9) < beyond * (1 + 2e-9)
    assert math.isclose(found.step_s, at)
    assert math.isclose(found.tokens_per_s, found.rows / at)


def test_memory_may_end_it_before_time_does():
    found = capacity(CONFIG, 64, ROOMY, 1e3)
    assert (found.rows, found.limit) == (100, "memory")


def test_where_one_row_is_too_slow_there_is_none():
    found = capacity(CONFIG, 64, ROOMY, 1e-9)
    assert (found.rows, found.tokens_per_s, found.limit) == (0, 0, "time")
    assert found.step_s > 1e-9


def test_the_references_cache_for_a_window_of_32k_is_384_mib():
    room = weight_bytes(reference_config()) + 5 * 384 * 1024**2
    assert rows_in_memory(reference_config(), 32768, Machine(room, 1, 1, spare=0.0)) == 5


def test_arrivals_times_seconds_are_in_flight():
    assert requests_in_flight(2.5, 8.0) == 20.0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: rows_in_memory(CONFIG, 0, ROOMY),
        lambda: rows_in_memory(CONFIG, 64, Machine(0, 1, 1)),
        lambda: rows_in_memory(CONFIG, 64, Machine(1e9, 1, 1, spare=1.0)),
        lambda: step_times(CONFIG, 64, 0, ROOMY),
        lambda: step_times(CONFIG, 64, 1, Machine(1e9, math.nan, 1)),
        lambda: capacity(CONFIG, 64, ROOMY, 0.0),
        lambda: requests_in_flight(-1, 1),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        wrong()


@pytest.mark.parametrize("odd", ["80e9", 1e308])
def test_text_and_numbers_of_no_machine_are_refused(odd):
    with pytest.raises(ValueError, match="step_limit_s must be"):
        capacity(CONFIG, 64, ROOMY, odd)
    for machine in (Machine(odd, 1e9, 1e12), Machine(1e9, odd, 1e12), Machine(1e9, 1e9, odd)):
        with pytest.raises(ValueError, match="a machine's numbers must be"):
            capacity(CONFIG, 64, machine, 1.0)
