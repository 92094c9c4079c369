"""The two ceilings, on a clock that is ours: the best of several ways, and what follows from it."""

from types import SimpleNamespace

import pytest
import torch

from inside_generate import ceilings
from inside_generate.ceilings import (
    MIB,
    Ceilings,
    best_seconds,
    higher,
    measure_ceilings,
    read_bytes,
    reading_ways,
)

CPU = torch.device("cpu")
ONE = Ceilings("cpu", "float32", {"slow": 10.0, "fast": 20.0}, {"A B, 8": 300.0, "A B, 4": 100.0})


class Ticking:
    """A clock that a run takes forward by the next of its costs, the last one for ever."""

    def __init__(self, *costs_s):
        self.now_s, self.costs_s, self.runs = 0.0, list(costs_s), 0

    def __call__(self):
        return self.now_s

    def run(self):
        self.now_s += self.costs_s[min(self.runs, len(self.costs_s) - 1)]
        self.runs += 1


class Steady:
    """A clock on which everything takes a quarter of a second."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        self.now_s += 0.25
        return self.now_s


def test_a_ceiling_is_the_best_way():
    assert (ONE.memory_way, ONE.memory_gb_per_s) == ("fast", 20.0)
    assert (ONE.matmul_way, ONE.matmul_gflop_per_s) == ("A B, 8", 300.0)


def test_the_roof_is_the_lower_ceiling_and_bends_where_they_meet():
    assert ONE.ridge_flop_per_byte == 15.0
    assert [ONE.gflop_per_s(x) for x in (0, 1, 15, 100)] == [0, 20, 300, 300]


def test_the_slower_of_computing_and_reading_takes_the_time():
    assert ONE.seconds(300e9, 10e9) == 1.0
    assert ONE.seconds(300e9, 40e9) == 2.0


def test_the_shortest_run_counts():
    clock = Ticking(5.0, 0.5, 2.0)
    assert best_seconds(clock.run, clock) == 0.5
    assert clock.runs == 3  # all its time is spent


def test_short_runs_are_repeated_but_not_without_end():
    clock = Ticking(0.1)
    best_seconds(clock.run, clock)
    assert 3 <= clock.runs <= 4
    clock = Ticking(1e-9)
    best_seconds(clock.run, clock)
    assert clock.runs == ceilings.MOST_RUNS


def test_a_clock_that_stands_still_gives_no_rate():
    with pytest.raises(ValueError, match="needs a clock that moves"):
        best_seconds(lambda: None, lambda: 0.0)


def test_each_way_passes_over_all_of_the_memory():
    numbers = torch.arange(2 * 8192, dtype=torch.float32).view(2, -1) % 7
    total = float(numbers.sum())
    found = {name: run().double() for name, run in reading_ways(numbers.clone()).items()}
    assert float(found.pop("dot product")) == float((numbers[0] * numbers[1]).sum())
    assert torch.equal(found.pop("copy").float(), numbers[0])
    assert [float(result.sum()) for result in found.values()] == [total] * len(found)
    assert {"sum", "sum of each row", "matrix times vector"} <= found.keys()


def test_little_memory_is_read_where_little_is_free(monkeypatch):
    for free, read in ((100 * 1024**3, 512 * MIB), (80 * MIB, 10 * MIB), (1000, MIB)):
        memory = SimpleNamespace(available=free)
        monkeypatch.setattr(ceilings.psutil, "virtual_memory", lambda memory=memory: memory)
        assert read_bytes(CPU) == read
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (64 * MIB, 0))
    assert read_bytes(torch.device("cuda")) == 8 * MIB


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(ceilings.READ_BYTES, "cpu", 2 * MIB)
    monkeypatch.setitem(ceilings.MATRIX_SIZES, "cpu", (8, 16))
    monkeypatch.setattr(ceilings, "SECONDS_EACH", 0.0)


def test_rates_are_bytes_and_operations_over_seconds(small):
    lines = []
    found = measure_ceilings("cpu", torch.bfloat16, lines.append, clock=Steady())
    assert set(found.ways.values()) == {2 * MIB / 0.25 / 1e9}
    rate = 2 * 16**3 / 0.25 / 1e9
    assert found.matmul_ways["A B, 16"] == found.matmul_ways["A Bᵀ, 16"] == rate
    assert (found.device, found.dtype) == ("cpu", "bfloat16")
    assert len(lines) == len(found.ways) + len(found.matmul_ways)


def test_a_slow_machine_is_spared_the_larger_products(small, monkeypatch):
    monkeypatch.setattr(ceilings, "SLOW_S", 0.2)
    found = measure_ceilings("cpu", torch.float32, clock=Steady())
    assert list(found.matmul_ways) == ["A B, 8", "A Bᵀ, 8"]


def test_a_real_clock_gives_rates(small):
    found = measure_ceilings(CPU, torch.float32)
    assert min(*found.ways.values(), *found.matmul_ways.values()) > 0


@pytest.mark.parametrize("bad", [-1.0, float("nan"), "a"])
def test_work_that_is_no_number_is_refused(bad):
    with pytest.raises(ValueError, match="work must be"):
        ONE.seconds(bad, 1.0)
    with pytest.raises(ValueError, match="flop_per_byte must be"):
        ONE.gflop_per_s(bad)


def test_of_two_measurements_the_better_counts_way_by_way():
    other = Ceilings("cpu", "float32", {"slow": 15.0, "fast": 18.0}, {"A B, 8": 310.0})
    best = higher(ONE, other)
    assert best.ways == {"slow": 15.0, "fast": 20.0}
    assert best.matmul_ways == {"A B, 8": 310.0, "A B, 4": 100.0}
