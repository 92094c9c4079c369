"""The ladder's compiled step on a GPU: one CUDA graph, run again and again, the same logits."""

import pytest
import torch
from tests.tiny import random_inputs

from inside_generate.ladder import (
    Compiled,
    Dynamic,
    Int8,
    NoCache,
    RungUnavailable,
    Static,
    agreement,
    forced,
)

# What the compiler warns of while it works is its own affair.
pytestmark = pytest.mark.filterwarnings("ignore")

SLOTS = 48
IDS = (5, 17, 300, 42, 7, 7, 211, 64)
TOLERANCE = 1e-3


def prompt(device, seed=0):
    return {name: row.to(device) for name, row in random_inputs(12, seed).items()}


def logits_of(rung, device, seed=0):
    return forced(rung, prompt(device, seed), IDS)


@pytest.fixture(scope="module")
def compiled(fp32, device):
    """A compiled rung that has compiled; a CPU without a C++ compiler cannot have one."""
    rung = Compiled(fp32, SLOTS)
    try:
        logits_of(rung, device)
    except RungUnavailable as error:
        if device.type == "cuda":
            raise
        pytest.skip(f"needs a CUDA GPU, or a compiler: {error}")
    return rung


def test_no_cache_and_a_static_cache_give_the_logits_of_the_loop(fp32, device):
    loop = forced(Dynamic(fp32), prompt(device), IDS)
    for rung in (NoCache(fp32), Static(fp32, SLOTS)):
        torch.testing.assert_close(logits_of(rung, device), loop, atol=TOLERANCE, rtol=0)


def test_the_compiled_step_gives_the_logits_of_the_loop_twice_in_a_row(fp32, compiled, device):
    loop = forced(Dynamic(fp32), prompt(device), IDS)
    for _ in range(2):  # the second run meets the graph and the cache of the first
        torch.testing.assert_close(logits_of(compiled, device), loop, atol=TOLERANCE, rtol=0)


def test_the_compiled_step_forgets_the_prompt_before(fp32, compiled, device):
    logits_of(compiled, device, seed=1)
    loop = forced(Dynamic(fp32), prompt(device, seed=2), IDS)
    torch.testing.assert_close(logits_of(compiled, device, seed=2), loop, atol=TOLERANCE, rtol=0)


def test_what_a_compiled_step_returned_outlives_the_next_step(compiled, device):
    compiled.start(prompt(device))
    first = compiled.step(torch.tensor([[5]], device=device))
    kept = first.clone()
    compiled.step(torch.tensor([[17]], device=device))
    torch.testing.assert_close(first, kept, atol=0, rtol=0)


def test_the_compiled_step_is_one_cuda_graph(fp32, compiled, cuda):
    """A step that could not be recorded runs all the same, and slowly: the compiler counts it."""
    counts = torch._dynamo.utils.counters["inductor"]
    before = counts["cudagraph_skips"]
    logits_of(Compiled(fp32, SLOTS + 1), cuda)
    assert counts["cudagraph_skips"] == before


def test_the_compiled_step_is_exact_in_bf16_at_the_reference_widths(two_layers, cuda):
    loop = forced(Dynamic(two_layers), prompt(cuda), IDS)
    logits = logits_of(Compiled(two_layers, SLOTS), cuda)
    assert agreement(loop, IDS, logits, IDS, torch.bfloat16).exact


def test_rounded_weights_give_other_logits_and_the_same_form(fp32, compiled, device):
    loop = forced(Dynamic(fp32), prompt(device), IDS)
    rounded = logits_of(Int8(fp32, SLOTS), device)
    assert rounded.shape == loop.shape
    assert rounded.isfinite().all()
    assert not torch.allclose(rounded, loop, atol=TOLERANCE)
