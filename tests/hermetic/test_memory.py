"""The allocator's counters: read on CUDA, absent elsewhere."""

import pytest
import torch
from tests.tiny import random_inputs

from inside_generate import logits_bytes, memory, prefill
from inside_generate.live_tensors import LiveTensors


def test_a_cpu_has_no_peak_which_is_none_and_not_0():
    memory.reset_peak(torch.device("cpu"))
    assert memory.peak_allocated_mib(torch.device("cpu")) is None


@pytest.mark.parametrize(("read", "mib"), [(1_234_567_890, 1177.38), (0, 0.0), (1024**2, 1.0)])
def test_a_gpus_peak_is_given_in_mib_of_1024_squared_bytes_to_two_decimals(monkeypatch, read, mib):
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: read)
    assert memory.peak_allocated_mib(torch.device("cuda:0")) == mib


def test_a_gpus_peak_starts_again_on_that_gpu(monkeypatch):
    seen = []
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", seen.append)
    memory.reset_peak(torch.device("cuda:1"))
    assert seen == [torch.device("cuda:1")]


# --- what one run took ----------------------------------------------------------------------------


@pytest.fixture
def card(monkeypatch):
    """A GPU's counters without a GPU: bytes as CUDA would report them."""
    bytes_now = {"allocated": 1000, "peak": 9000, "reserved": 2000, "most_reserved": 9500}
    calls = []

    def reset(device):
        calls.append("reset")
        bytes_now["peak"] = bytes_now["allocated"]

    for name, value in {
        "memory_allocated": lambda device: bytes_now["allocated"],
        "memory_reserved": lambda device: bytes_now["reserved"],
        "max_memory_allocated": lambda device: bytes_now["peak"],
        "max_memory_reserved": lambda device: bytes_now["most_reserved"],
        "mem_get_info": lambda device: (60_000, 80_000),
        "reset_peak_memory_stats": reset,
        "synchronize": lambda device=None: calls.append("synchronize"),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return bytes_now, calls


def test_a_run_is_charged_with_its_peak_less_what_was_there(card):
    bytes_now, calls = card

    def run():
        calls.append("run")
        bytes_now["peak"] = 1700
        return "result"

    result, taken = memory.measure(run, torch.device("cuda:0"))
    assert result == "result"
    assert (taken.before_bytes, taken.peak_bytes, taken.reserved_bytes) == (1000, 1700, 9500)
    assert taken.delta_bytes == 700
    assert calls == ["synchronize", "reset", "run", "synchronize"]


def test_the_peak_of_an_earlier_run_is_not_charged_again(card):
    assert memory.measure(lambda: None, torch.device("cuda:0"))[1].delta_bytes == 0


def test_a_short_prompt_after_a_long_one_has_the_smaller_peak(model, card):
    """The card counts what the forwards of a real model make; weights and cache lie below."""
    bytes_now, _ = card
    taken = []
    for length in (100, 8):
        with LiveTensors() as live:

            def run(length=length, live=live):
                result = prefill(model, random_inputs(length), keep_all_logits=True)
                now = bytes_now["allocated"] + live.peak_bytes
                bytes_now["peak"] = max(bytes_now["peak"], now)
                return result

            taken.append(memory.measure(run, torch.device("cuda:0"))[1].delta_bytes)
    long, short = taken
    assert logits_bytes(model.config, 8, dtype=torch.float32) < short < long
    assert long > logits_bytes(model.config, 100, dtype=torch.float32)


def test_three_counters_of_a_card(card):
    now = memory.counters(torch.device("cuda:0"))
    assert (now.allocated_bytes, now.reserved_bytes, now.card_bytes) == (1000, 2000, 20_000)


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_without_cuda_every_reading_is_none_and_the_run_happens(device, monkeypatch):
    monkeypatch.setattr(torch.mps, "synchronize", lambda: None)
    result, taken = memory.measure(lambda: 7, torch.device(device))
    readings = [*vars(taken).values(), *vars(memory.counters(torch.device(device))).values()]
    assert result == 7
    assert {*readings, taken.delta_bytes} == {None}


def test_the_process_holds_some_memory():
    assert memory.process_bytes() > 1024**2


def test_a_device_may_be_given_by_its_name():
    assert memory.counters("cpu") == memory.counters(torch.device("cpu"))
    assert memory.measure(lambda: 3, "cpu") == memory.measure(lambda: 3, torch.device("cpu"))
    assert memory.peak_allocated_mib("cpu") is None
