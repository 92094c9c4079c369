"""The model for what runs in addition: small, so that it does not take long."""

import pytest

from inside_generate.errors import InsideGenerateError
from inside_generate.finding import find

SMALL = "smollm2-135m-instruct"


@pytest.fixture(scope="module")
def small() -> str:
    """The folder of the small model."""
    try:
        return str(find(SMALL))
    except InsideGenerateError as error:
        pytest.skip(f"needs the small model: {error}")
