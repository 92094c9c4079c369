"""What the tests for workshops share: the model that both take, and Chromium."""

from pathlib import Path

import pytest
from tests.book.conftest import browser  # noqa: F401

from inside_generate.checkpoints import CHECKPOINTS, SMALL
from inside_generate.finding import find, on_disk

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def model() -> Path:
    """The small model where it is on the disk, since several copies are loaded at once."""
    return on_disk(CHECKPOINTS[SMALL]) or find()
