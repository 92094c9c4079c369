"""What the tests without a download share: tiny models, and a list of the forwards they ran."""

import contextlib
from dataclasses import dataclass

import pytest
import torch
from tests.tiny import tiny_model, tiny_tokenizer


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Run on one thread: a tiny model gains nothing from two, and busy machines lose a lot."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def model():
    """One tiny model for tests that change nothing about it."""
    return tiny_model()


@dataclass(frozen=True)
class Call:
    """What one forward was given, and how many positions the output matrix worked on."""

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    position_ids: torch.Tensor
    head_positions: int


@pytest.fixture
def forwards():
    """Return a function that lists the forwards of a model from then on, until the test ends."""
    with contextlib.ExitStack() as hooks:

        def watch(model):
            calls, positions = [], []

            def head(module, args):
                positions.append(args[0].shape[1])

            def after(module, args, kwargs, output):
                names = ("input_ids", "attention_mask", "position_ids")
                calls.append(Call(*(kwargs.get(name) for name in names), positions[-1]))

            for handle in (
                model.lm_head.register_forward_pre_hook(head),
                model.register_forward_hook(after, with_kwargs=True),
            ):
                hooks.callback(handle.remove)
            return calls

        yield watch
