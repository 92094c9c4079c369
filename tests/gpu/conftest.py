"""The device that the GPU tests run on, tiny and large models there, and exact arithmetic.

`INSIDE_GENERATE_DEVICE=cpu` runs the tests that do not need CUDA's own counters on a CPU, to try
them. Nothing is downloaded: all weights are random.
"""

import os

import pytest
import torch
from tests.tiny import tiny_model, tiny_tokenizer
from transformers import AutoModelForCausalLM

import gpu_peak
from inside_generate.reference import reference_config

PEAK = gpu_peak.watch()


@pytest.fixture(scope="session")
def device() -> torch.device:
    """The GPU, or the CPU where that was asked for."""
    if os.environ.get("INSIDE_GENERATE_DEVICE") == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")
    return torch.device("cuda", torch.cuda.current_device())


@pytest.fixture(scope="session")
def cuda(device) -> torch.device:
    """The GPU; nothing else will do."""
    if device.type != "cuda":
        pytest.skip("needs a CUDA GPU")
    return device


@pytest.fixture(autouse=True)
def exact():
    """Let fp32 be fp32: no TF32, whose products keep ten bits."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.fixture(scope="session")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="session")
def fp32(device):
    """A tiny model in fp32 on the device."""
    return tiny_model().to(device)


@pytest.fixture(scope="session")
def bf16(device):
    """The same in bf16."""
    return tiny_model().to(device, torch.bfloat16)


def random_model(device, **changes):
    config = reference_config()
    config.update(changes)
    with torch.random.fork_rng(), device:
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config).to(torch.bfloat16).eval()


@pytest.fixture(scope="session")
def large(cuda):
    """A model of the reference's sizes with random weights, in bf16."""
    return random_model(cuda)


@pytest.fixture(scope="session")
def two_layers(cuda):
    """The same with two layers, for what takes its time with each."""
    layers = {"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2}
    return random_model(cuda, **layers)


def pytest_terminal_summary(terminalreporter):
    """Say how much memory it took, for those who keep results."""
    if (mib := PEAK()) is not None:
        terminalreporter.line(gpu_peak.line(mib))
