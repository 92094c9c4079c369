"""Bytes of tensors as they come and go, on sizes that are known."""

import numpy as np
import torch
from tests.tiny import random_inputs, tiny_model

from inside_generate import kv_cache_bytes, logits_bytes, prefill
from inside_generate.cache import head_dim
from inside_generate.live_tensors import LiveTensors

KIB = 1024


def test_new_tensors_count_and_freed_ones_no_longer():
    with LiveTensors() as memory:
        x = torch.zeros(256)  # 4 bytes each
        assert (memory.live_bytes, memory.peak_bytes) == (KIB, KIB)
        y = torch.zeros(512, dtype=torch.bfloat16)
        assert memory.live_bytes == 2 * KIB
        del x
        assert (memory.live_bytes, memory.peak_bytes) == (KIB, 2 * KIB)
        del y
    assert (memory.live_bytes, memory.peak_bytes) == (0, 2 * KIB)


def test_a_result_and_what_it_is_made_from_are_alive_together():
    with LiveTensors() as memory:
        x = torch.ones(256)
        x = x + 1
    assert (memory.live_bytes, memory.peak_bytes) == (KIB, 2 * KIB)


def test_a_view_costs_nothing_and_keeps_all_alive():
    with LiveTensors() as memory:
        x = torch.zeros(16, 16)
        view = x.T[0].reshape(1, 16).expand(4, 16)
        assert memory.live_bytes == KIB
        del x
        assert memory.live_bytes == KIB
        del view
    assert memory.live_bytes == 0


def test_what_was_there_before_is_not_counted_nor_are_its_views():
    before = torch.zeros(256)
    with LiveTensors() as memory:
        view = before.view(16, 16)
        before.add_(1)
        assert memory.peak_bytes == 0
        del view, before
    assert memory.live_bytes == 0


def test_tensors_freed_after_the_block_are_taken_off():
    with LiveTensors() as memory:
        x = torch.zeros(256)
    assert memory.live_bytes == KIB
    del x
    assert memory.live_bytes == 0


def test_a_reset_peak_starts_from_what_is_alive():
    with LiveTensors() as memory:
        x = torch.zeros(256)
        torch.zeros(1024)
        memory.reset_peak()
        assert memory.live_bytes == memory.peak_bytes == x.nbytes


def test_an_account_of_a_prefill_closes_at_the_output_matrix():
    model = tiny_model(vocab_size=2000)
    config, fp32 = model.config, torch.float32
    with LiveTensors() as memory:
        step = prefill(model, random_inputs(100), keep_all_logits=True)
    kept = kv_cache_bytes(config, 100, dtype=fp32) + logits_bytes(config, 100, dtype=fp32)
    rest = 100 * config.hidden_size * 4
    assert kept <= memory.live_bytes < kept + KIB
    assert kept + rest <= memory.peak_bytes < 1.01 * (kept + rest)
    del step
    assert memory.live_bytes == 0


def test_with_the_last_row_alone_the_peak_is_in_the_last_layers_mlp(model):
    config = model.config
    with LiveTensors() as memory:
        prefill(model, random_inputs(100))
    numbers = 3 * config.intermediate_size + 4 * config.hidden_size + 2 * head_dim(config)
    integers = 3 * 100 * 8  # ids, mask and positions: two of them were there before
    peak = kv_cache_bytes(config, 100, dtype=torch.float32) + 100 * numbers * 4
    assert peak <= memory.peak_bytes <= peak + integers


def test_tensors_made_from_pythons_numbers_count():
    with LiveTensors() as memory:
        x = torch.tensor([1.0] * 256)
        y = torch.as_tensor([1.0] * 256)
        assert memory.live_bytes == 2 * KIB
        del x, y
    assert (memory.live_bytes, memory.peak_bytes) == (0, 2 * KIB)


def test_an_array_of_numpys_is_shared_and_costs_nothing():
    with LiveTensors() as memory:
        x = torch.from_numpy(np.zeros(128))
        assert (x + 1).nbytes == memory.peak_bytes == KIB
    assert memory.live_bytes == 0


def test_memory_that_grows_in_place_counts():
    before = torch.zeros(16)
    with LiveTensors() as memory:
        out = torch.empty(0)
        torch.add(torch.ones(1), torch.ones(256), out=out)
        assert memory.live_bytes == KIB
        before.resize_(16 + 256)
        assert memory.live_bytes == 2 * KIB
    del out, before
    assert memory.live_bytes == 0


def test_tensors_without_memory_of_their_own_are_left_alone():
    with LiveTensors() as memory:
        sparse = torch.eye(4).to_sparse()
        result = sparse @ torch.ones(4, 1)
        torch.zeros(256, device="meta")
    assert result.tolist() == [[1.0]] * 4
    assert memory.peak_bytes < KIB


def test_what_was_alive_at_the_peak_is_known_by_operation_and_shape():
    with LiveTensors() as memory:
        kept = [torch.zeros(16, 16) for _ in range(3)]
        row = kept[0] + 1
        del kept
        row = row[0].clone()
    kinds = [(kind.count, kind.made_by, kind.shape, kind.all_bytes) for kind in memory.at_peak()]
    assert kinds == [(3, "zeros", (16, 16), 3 * KIB), (1, "add", (16, 16), KIB)]
    memory.reset_peak()
    assert [(kind.made_by, kind.shape) for kind in memory.at_peak()] == [("clone", (16,))]
    assert sum(kind.all_bytes for kind in memory.at_peak()) == row.nbytes == memory.peak_bytes


def test_what_is_alive_at_the_peak_of_a_prefill_adds_up_to_it(model):
    with LiveTensors() as memory:
        prefill(model, random_inputs(30))
    kinds = memory.at_peak()
    assert sum(kind.all_bytes for kind in kinds) == memory.peak_bytes
    assert sum(k.count for k in kinds if k.shape[-1] == model.config.intermediate_size) == 3
