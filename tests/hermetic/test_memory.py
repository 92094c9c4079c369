"""The allocator's counters: read on CUDA, absent elsewhere."""

import pytest
import torch

from inside_generate import memory


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
