"""TTFT and TPOT on a clock that is ours, and a clock that waits for the device."""

import time

import pytest
import torch

from inside_generate import encode, generate, stream
from inside_generate.timing import device_clock, synchronize, tpot_s, ttft_s


@pytest.fixture
def clock(model):
    """A clock that only forwards move: 1.0 s for a prompt, 0.1 s for one token."""
    now = [0.0]

    def advance(module, args, kwargs):
        now[0] += 1.0 if kwargs["input_ids"].shape[1] > 1 else 0.1

    handle = model.register_forward_pre_hook(advance, with_kwargs=True)

    def read():
        read.calls += 1
        return now[0]

    read.calls = 0
    read.wait = lambda seconds: now.__setitem__(0, now[0] + seconds)
    yield read
    handle.remove()


def run(model, tokenizer, clock, tokens):
    return generate(model, tokenizer, "soup", max_new_tokens=tokens, eos_token_ids=[], clock=clock)


def test_five_tokens_have_a_ttft_of_1_s_and_a_tpot_of_a_tenth(model, tokenizer, clock):
    trace = run(model, tokenizer, clock, 5)
    assert trace.ttft_s == pytest.approx(1.0)
    assert trace.tpot_s == pytest.approx(0.1)
    assert sum(step.seconds for step in trace.steps) == pytest.approx(1.4)


def test_tpot_is_the_time_after_the_first_token_over_one_token_less(model, tokenizer, clock):
    trace = run(model, tokenizer, clock, 5)
    total = sum(step.seconds for step in trace.steps)
    assert trace.tpot_s == pytest.approx((total - trace.ttft_s) / (5 - 1))


def test_one_token_has_a_ttft_and_no_tpot(model, tokenizer, clock):
    trace = run(model, tokenizer, clock, 1)
    assert trace.ttft_s == pytest.approx(1.0)
    assert trace.tpot_s is None


def test_ttft_and_tpot_of_plain_numbers():
    assert (ttft_s([1.0, 0.1, 0.3]), tpot_s([1.0, 0.1, 0.3])) == (1.0, 0.2)
    assert (ttft_s([1.0]), tpot_s([1.0])) == (1.0, None)


def test_the_clock_is_read_twice_a_step(model, tokenizer, clock):
    run(model, tokenizer, clock, 5)
    assert clock.calls == 2 * 5


def test_what_the_caller_does_between_two_steps_is_not_timed(model, tokenizer, clock):
    seconds = []
    inputs = encode(tokenizer, "soup")
    for step in stream(model, tokenizer, inputs, max_new_tokens=4, eos_token_ids=[], clock=clock):
        seconds.append(step.seconds)
        clock.wait(100.0)
    assert seconds == pytest.approx([1.0, 0.1, 0.1, 0.1])


def test_what_is_done_with_each_record_is_not_timed_either(model, tokenizer, clock):
    trace = generate(
        model,
        tokenizer,
        "soup",
        max_new_tokens=3,
        eos_token_ids=[],
        clock=clock,
        on_step=lambda step: clock.wait(100.0),
    )
    assert [step.seconds for step in trace.steps] == pytest.approx([1.0, 0.1, 0.1])


def test_the_time_to_choose_a_token_is_timed(model, tokenizer, clock):
    def slow(logits):
        clock.wait(0.5)
        return logits.argmax(dim=-1)

    trace = generate(
        model, tokenizer, "soup", max_new_tokens=3, sampler=slow, eos_token_ids=[], clock=clock
    )
    assert [step.seconds for step in trace.steps] == pytest.approx([1.5, 0.6, 0.6])


# --- the device's clock ---------------------------------------------------------------------------


@pytest.fixture
def events(monkeypatch):
    """What a device clock does, in order: the device is a fake, so is the time."""
    seen = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: seen.append(str(device)))
    monkeypatch.setattr(torch.mps, "synchronize", lambda: seen.append("mps"))

    def now():
        seen.append("time")
        return 7.0

    monkeypatch.setattr(time, "perf_counter", now)
    return seen


@pytest.mark.parametrize("name", ["cuda:1", "mps"])
def test_each_reading_waits_for_the_device_and_only_then_takes_the_time(events, name):
    clock = device_clock(torch.device(name))
    assert not events
    clock()
    assert events == [name, "time"]
    clock()
    assert events == [name, "time"] * 2


def test_a_timed_run_waits_for_the_device_before_each_start_and_stop(
    model, tokenizer, events, forwards
):
    """The fake device: the clock of a GPU around a model that really is on the CPU."""
    handle = model.register_forward_hook(lambda *_: events.append("forward"))
    clock = device_clock(torch.device("cuda:0"))
    run(model, tokenizer, clock, 3)
    handle.remove()
    assert events == ["cuda:0", "time", "forward", "cuda:0", "time"] * 3


def test_on_a_cpu_there_is_nothing_to_wait_for(events):
    synchronize(torch.device("cpu"))
    assert events == []
    device_clock(torch.device("cpu"))()
    assert events == ["time"]


def test_a_run_on_the_cpu_makes_no_cuda_call(model, tokenizer, monkeypatch):
    def called(*args, **kwargs):
        raise AssertionError("a CUDA call on a CPU")

    for name in (
        "_lazy_init",
        "synchronize",
        "reset_peak_memory_stats",
        "max_memory_allocated",
        "memory_allocated",
        "get_device_name",
        "current_stream",
    ):
        monkeypatch.setattr(torch.cuda, name, called)
    trace = generate(model, tokenizer, "soup", max_new_tokens=3)
    assert len(trace.steps) == 3
    assert trace.ttft_s > 0
    assert trace.peak_allocated_mib is None
