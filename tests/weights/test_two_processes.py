"""A model cut over processes gives the logits of one process, and each process its share."""

import os

import psutil
import pytest
import torch
from tests.tiny import tiny_model, tiny_tokenizer

from inside_generate import InsideGenerateError, append_one, decode_step, load, prefill
from inside_generate.beyond.ranks import run_ranks
from inside_generate.beyond.traffic import possible_ranks, predicted
from inside_generate.cache import head_dim, kv_cache_bytes, kv_heads, weight_bytes
from inside_generate.checkpoints import CHECKPOINTS, SMALL, fetch_command
from inside_generate.finding import on_disk
from inside_generate.rounding import logit_tolerance

PROMPT, NEXT = list(range(40, 51)), [7, 300, 9]


@pytest.fixture(autouse=True)
def nothing_left():
    before = set(psutil.Process().children(recursive=True))
    yield
    assert set(psutil.Process().children(recursive=True)) - before == set()


def saved(model, folder):
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def logits_alone(model):
    """The logits of the last position after the prompt, and after each token that follows."""
    ids = torch.tensor([PROMPT])
    mask = torch.ones_like(ids)
    step = prefill(model, {"input_ids": ids, "attention_mask": mask})
    rows = [step.logits]
    for token in NEXT:
        mask = append_one(mask)
        step = decode_step(model, torch.tensor([[token]]), step.cache, mask)
        rows.append(step.logits)
    return torch.cat(rows)


def check(shares, model, ranks):
    config, alone = model.config, logits_alone(model)
    tokens = len(PROMPT) + len(NEXT)
    step = predicted(config, ranks, 1, dtype=model.dtype)
    for share in shares:
        assert torch.equal(share.logits, shares[0].logits)
        assert (share.logits - alone).abs().max() <= logit_tolerance(model.dtype)
        assert share.cached_keys == (1, kv_heads(config) // ranks, tokens, head_dim(config))
        assert share.cache_bytes * ranks == kv_cache_bytes(config, tokens, dtype=model.dtype)
        assert share.transfers[0] == predicted(config, ranks, len(PROMPT), dtype=model.dtype)
        assert share.transfers[1:] == [step] * len(NEXT)
    whole = [part for part in shares[0].weights.values() if part.axis is None]
    uncut = sum(torch.Size(part.own).numel() for part in whole) * model.dtype.itemsize
    total = sum(share.weight_bytes for share in shares)
    assert total == weight_bytes(config, model.dtype) + (ranks - 1) * uncut


def test_two_processes_give_the_logits_of_one(tmp_path):
    model = tiny_model(tie_word_embeddings=False)  # the real weights below are tied
    check(run_ranks(saved(model, tmp_path), 2, PROMPT, NEXT, timeout_s=120), model, 2)


def test_real_weights_are_cut_by_heads():
    directory = on_disk(CHECKPOINTS[SMALL])
    if directory is None:
        pytest.skip(f"no {SMALL} on this disk; type `{fetch_command(SMALL)}`")
    _, model = load(directory, device="cpu", dtype="float32")
    ranks = possible_ranks(model.config)[1]
    shares = run_ranks(directory, ranks, PROMPT, NEXT, timeout_s=120)
    check(shares, model, ranks)
    assert shares[0].cached_keys[1] == 1


def test_a_rank_that_fails_is_said_to_have_in_one_line(tmp_path):
    saved(tiny_model(), tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(InsideGenerateError, match=r"^rank-\d failed: .*Error: ") as said:
        run_ranks(tmp_path, 2, PROMPT, timeout_s=120)
    assert "\n" not in str(said.value)
    assert str(os.getpid()) not in str(said.value)
