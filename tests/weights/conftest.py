"""Real checkpoints from this disk: what ``auto`` finds, loaded once a session in each dtype."""

import pytest

from inside_generate import InsideGenerateError, load


def loaded(dtype):
    try:
        return load("auto", dtype=dtype)
    except InsideGenerateError as error:
        what_to_type = str(error)
    pytest.fail(what_to_type, pytrace=False)


@pytest.fixture(scope="session")
def fp32():
    """The tokenizer and the model in fp32."""
    return loaded("float32")


@pytest.fixture(scope="session")
def bf16():
    """The tokenizer and the model in bf16."""
    return loaded("bfloat16")
