"""What travels between ranks is predicted from a config; how ranks are started and fail is said."""

import json
import sys

import pytest
import torch
import torch.distributed as dist
from tests.tiny import tiny_config

from inside_generate import InsideGenerateError
from inside_generate.beyond import ranks
from inside_generate.beyond.traffic import (
    Collectives,
    Transfer,
    bytes_sent,
    check_ranks,
    possible_ranks,
    predicted,
)
from inside_generate.cache import with_kv_heads
from inside_generate.reference import reference_config


def test_the_reference_exchanges_two_sums_a_layer_one_more_and_its_logits():
    found = predicted(reference_config(), 2, 35)
    assert found[:-1] == [Transfer("all-reduce", (1, 35, 896), 62_720)] * 49
    assert found[-1] == Transfer("all-gather", (1, 1, 75_968), 151_936)


def test_a_rank_sends_its_share():
    step = predicted(reference_config(), 2, 1)
    assert bytes_sent(step, 2) == 49 * 1792 + 151_936
    assert bytes_sent([Transfer("all-reduce", (3,), 300)], 3) == 400
    assert predicted(tiny_config(), 1, 5) == []
    assert bytes_sent([], 1) == 0


def test_heads_have_to_be_shared_out_evenly():
    assert possible_ranks(reference_config()) == [1, 2]
    nine_and_three = tiny_config(hidden_size=72, num_attention_heads=9, num_key_value_heads=3)
    assert possible_ranks(nine_and_three) == [1, 3]
    with pytest.raises(ValueError, match=r"3 KV heads cannot .* to 2 ranks; choose one of 1, 3$"):
        check_ranks(nine_and_three, 2)
    assert possible_ranks(with_kv_heads(reference_config(), 1)) == [1]


@pytest.mark.parametrize("wrong", [0, True, 1.0, "2"])
def test_a_number_of_ranks_that_cannot_be_meant_is_refused(wrong):
    with pytest.raises(ValueError, match="ranks must be"):
        check_ranks(tiny_config(), wrong)


@pytest.fixture
def alone(tmp_path):
    """A group of one process: its operations run, and move nothing."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_operations_between_processes_are_noted_and_others_are_not(alone):
    numbers, room = torch.ones(2, 3), torch.empty(2, 3)
    with Collectives() as seen:
        dist.all_reduce(numbers + 1)
        dist.all_gather([room], numbers.half().float())
        dist.barrier()
    dist.all_reduce(numbers)  # the mode is off
    assert seen.transfers == [
        Transfer("all-reduce", (2, 3), 24),
        Transfer("all-gather", (2, 3), 24),
    ]


# --- starting the ranks ---------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path):
    tiny_config().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def as_program(monkeypatch, code):
    """Let a few lines of Python stand in for torchrun; they are given the folder."""
    monkeypatch.setattr(
        ranks, "torchrun", lambda n, program, folder: [sys.executable, "-c", code, folder]
    )


def test_the_failure_of_a_rank_is_passed_on_in_one_line(model, monkeypatch):
    as_program(
        monkeypatch,
        "import pathlib, sys, time; "
        "pathlib.Path(sys.argv[1], 'rank-1.error').write_text('OSError: no room'); time.sleep(60)",
    )
    with pytest.raises(InsideGenerateError, match=r"^rank-1 failed: OSError: no room$"):
        ranks.run_ranks(model, 2, [1, 2, 3])


def test_torchrun_that_fails_by_itself_is_said_to_have(model, monkeypatch):
    as_program(monkeypatch, "raise RuntimeError('no rendezvous')")
    with pytest.raises(InsideGenerateError, match=r"ended with 1: RuntimeError: no rendezvous$"):
        ranks.run_ranks(model, 2, [1, 2, 3])


def test_ranks_that_never_finish_are_not_waited_for(model, monkeypatch):
    as_program(monkeypatch, "import time; time.sleep(60)")
    with pytest.raises(InsideGenerateError, match=r"over 2 processes was not ready after 0\.2 s"):
        ranks.run_ranks(model, 2, [1, 2, 3], timeout_s=0.2)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"ranks": 4}, "2 KV heads cannot be shared out evenly to 4 ranks"),
        ({"prompt_ids": "soup"}, "prompt_ids is a row of ids"),
        ({"next_ids": [0.5]}, "a token id must be a whole number"),
        ({"timeout_s": 0}, "timeout_s must be"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_started(model, monkeypatch, wrong, words):
    as_program(monkeypatch, "raise SystemExit('it must not start')")
    right = {"model": model, "ranks": 2, "prompt_ids": [1]}
    with pytest.raises(ValueError, match=words):
        ranks.run_ranks(**(right | wrong))


def test_the_ranks_meet_on_this_machine_and_share_its_threads(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    command = ranks.torchrun(2, "a.module", "folder")
    assert command[command.index("--local-addr") + 1] == "127.0.0.1"
    assert command[-3:] == ["-m", "a.module", "folder"]
    assert ranks.surroundings(2, "cpu")["OMP_NUM_THREADS"] == "4"
    assert ranks.surroundings(2, "cpu")["CUDA_VISIBLE_DEVICES"] == ""
    assert "CUDA_VISIBLE_DEVICES" not in ranks.surroundings(2, "cuda")
    json.dumps(ranks.surroundings(16, "cpu"))
    assert ranks.surroundings(16, "cpu")["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize("model", ["/no such model", "no-such-model", ""])
def test_a_model_that_is_not_there_is_one_line_before_any_process_starts(model):
    with pytest.raises(InsideGenerateError, match="cannot read the config of") as said:
        ranks.run_ranks(model, 1, [1])
    assert "\n" not in str(said.value)
