"""The compiled step on real weights: compiled once, exact, and the same answer again.

On some layers of them: each is compiled for itself. Chapter 18 asserts the same of a whole model.
"""

import copy

import pytest
import torch

from inside_generate import InsideGenerateError, encode, load
from inside_generate.checkpoints import SMALL
from inside_generate.doctor import machine
from inside_generate.ladder import Compiled, Dynamic, Static, agreement, forced, free
from inside_generate.timing import device_clock

# What the compiler warns of while it works is its own affair.
pytestmark = pytest.mark.filterwarnings("ignore")

TOKENS, LAYERS = 12, 2


@pytest.fixture(scope="module")
def small():
    """The first layers of the small model in bf16, and a prompt of their own."""
    try:
        tokenizer, model = load(SMALL, device="cpu", dtype="bfloat16")
    except InsideGenerateError as error:
        pytest.skip(str(error))
    model = copy.deepcopy(model)  # others use the whole one
    model.model.layers = model.model.layers[:LAYERS]
    model.config.num_hidden_layers = LAYERS
    return model, encode(tokenizer, "Why is the sky blue?")


@pytest.fixture(scope="module")
def reference(small):
    """The loop's own answer, and its logits along it."""
    model, inputs = small
    ids = free(Dynamic(model), inputs, TOKENS, device_clock(model.device)).ids
    return ids, forced(Dynamic(model), inputs, ids)


def verdict(rung, small, reference):
    model, inputs = small
    ids, logits = reference
    run = free(rung, inputs, TOKENS, device_clock(model.device))
    return run, agreement(logits, ids, forced(rung, inputs, ids), run.ids, model.dtype)


def check_parting(found):
    """Where the free runs part, the two best logits are nearer than rounding moves them."""
    assert found.first_divergence is None or found.margin <= 2 * found.tolerance


def test_a_static_cache_is_exact(small, reference):
    model, inputs = small
    slots = inputs["input_ids"].shape[1] + TOKENS
    _, found = verdict(Static(model, slots), small, reference)
    assert found.exact, found
    check_parting(found)


def test_the_compiled_step_is_exact_made_once_and_repeats_itself(small, reference):
    if not machine._has("a C++ compiler"):
        pytest.skip("needs a C++ compiler: python -m inside_generate doctor")
    model, inputs = small
    slots = inputs["input_ids"].shape[1] + TOKENS
    rung = Compiled(model, slots)
    clock = device_clock(model.device)
    first = free(rung, inputs, TOKENS, clock)  # compiles
    with torch.compiler.set_stance("fail_on_recompile"):
        run, found = verdict(rung, small, reference)
        shorter = {name: row[:, :5] for name, row in inputs.items()}
        free(rung, shorter, TOKENS, clock)
        again = free(rung, inputs, TOKENS, clock)
    assert found.exact, found
    check_parting(found)
    assert first.ids == run.ids == again.ids
