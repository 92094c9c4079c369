"""What a GPU's clock and allocator say: the account closes, a peak is reset, a clock waits."""

import time

import pytest
import torch

from inside_generate import logits_bytes, measured_kv_bytes, prefill, weight_bytes
from inside_generate.cache import kv_cache_bytes
from inside_generate.device import choose_dtype
from inside_generate.memory import counters, measure, reset_peak
from inside_generate.timing import device_clock, synchronize

LENGTH = 1024


def prompt_of(length, device):
    ids = torch.arange(length, device=device)[None] % 1000
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def test_after_a_prefill_memory_holds_weights_and_cache_and_little_else(large, cuda):
    """The allocator rounds blocks up and the libraries keep a workspace: a tenth at most."""
    torch.cuda.empty_cache()
    forward = prefill(large, prompt_of(LENGTH, cuda))
    synchronize(cuda)
    known = weight_bytes(large.config) + measured_kv_bytes(forward.cache)
    assert known <= counters(cuda).allocated_bytes <= 1.1 * known
    assert measured_kv_bytes(forward.cache) == kv_cache_bytes(large.config, LENGTH)


def test_what_a_prefill_with_all_logits_adds_is_at_least_cache_and_logits(large, cuda):
    inputs = prompt_of(LENGTH, cuda)
    prefill(large, inputs)  # the first one brings the libraries' workspaces
    all_rows = measure(lambda: prefill(large, inputs, keep_all_logits=True), cuda)[1].delta_bytes
    one_row = measure(lambda: prefill(large, inputs), cuda)[1].delta_bytes
    logits = logits_bytes(large.config, LENGTH)
    assert all_rows >= kv_cache_bytes(large.config, LENGTH) + logits
    assert one_row < logits < all_rows


def test_a_peak_counts_what_was_freed_and_its_reset_begins_at_what_is_alive(cuda):
    kept = torch.zeros(2**20, device=cuda)  # 4 MiB
    torch.zeros(2**24, device=cuda)  # 64 MiB, gone at once
    before = torch.cuda.memory_allocated(cuda)
    assert torch.cuda.max_memory_allocated(cuda) >= before + 2**26
    reset_peak(cuda)
    assert torch.cuda.max_memory_allocated(cuda) == torch.cuda.memory_allocated(cuda) == before
    assert kept.numel() == 2**20


def test_a_run_that_frees_what_it_made_has_a_delta_all_the_same(cuda):
    _, taken = measure(lambda: torch.zeros(2**24, device=cuda).sum().item(), cuda)
    assert 2**26 <= taken.delta_bytes < 2**26 + 2**22
    assert taken.reserved_bytes >= taken.peak_bytes
    now = counters(cuda)
    assert now.allocated_bytes <= now.reserved_bytes <= now.card_bytes


def test_the_clock_waits_for_the_device_where_a_plain_one_does_not(cuda):
    matrix = torch.randn(4096, 4096, device=cuda)

    def work():
        for _ in range(20):
            matrix.mm(matrix)

    work()
    clock = device_clock(cuda)
    start = clock()
    work()
    waited = clock() - start
    synchronize(cuda)
    start = time.perf_counter()
    work()
    queued = time.perf_counter() - start
    synchronize(cuda)
    assert not torch.cuda.is_current_stream_capturing()
    assert queued < waited, "handing work in takes less than doing it"


def test_auto_takes_bf16_where_the_gpu_has_it_and_fp16_elsewhere(cuda, monkeypatch):
    monkeypatch.delenv("INSIDE_GENERATE_DTYPE", raising=False)
    dtype, reason = choose_dtype("auto", cuda)
    major, minor = torch.cuda.get_device_capability(cuda)
    assert dtype == (torch.bfloat16 if major >= 8 else torch.float16)
    assert f"{major}.{minor}" in reason


@pytest.mark.parametrize("batch", [1, 4])
def test_a_batch_has_a_cache_as_many_times_as_large(large, cuda, batch):
    ids = torch.arange(64, device=cuda).expand(batch, -1)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    assert measured_kv_bytes(prefill(large, inputs).cache) == kv_cache_bytes(
        large.config, 64, batch=batch
    )
