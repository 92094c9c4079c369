"""The hub's own cache: the pinned commit counts as on disk where it is whole."""

from pathlib import Path

import pytest
from huggingface_hub import constants, hf_hub_download

from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, WEIGHTS
from inside_generate.errors import InsideGenerateError
from inside_generate.finding import find
from inside_generate.getting.fetch import fetch
from inside_generate.home import model_directory
from inside_generate.models import identity, load


@pytest.fixture
def cached(the_hub):
    """Let the hub client itself download the pinned commit into its cache."""
    known = CHECKPOINTS[REFERENCE]
    for name in known.files:
        path = hf_hub_download(
            known.model_id, name, revision=known.revision, cache_dir=constants.HF_HUB_CACHE
        )
    the_hub.requests.clear()
    return path


def test_a_commit_in_the_hubs_own_cache_counts_as_on_disk(the_hub, cached):
    directory = fetch("auto")
    assert str(directory / WEIGHTS) == cached
    assert directory == find(REFERENCE)
    assert the_hub.requests == []
    assert not model_directory(REFERENCE).exists()
    who = identity(load("auto", "cpu", "float32")[1])
    assert (who.revision, who.name) == (CHECKPOINTS[REFERENCE].revision, REFERENCE)


@pytest.mark.parametrize("harm", ["a file is gone", "weights are others", "weights are shorter"])
def test_a_cache_that_is_not_whole_does_not_count(the_hub, cached, harm):
    weights = Path(cached).resolve()
    content = weights.read_bytes()
    if harm == "a file is gone":
        Path(cached).with_name("config.json").unlink()
    elif harm == "weights are others":
        weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    else:
        weights.write_bytes(content[:-1])
    with pytest.raises(InsideGenerateError, match="is not in"):
        find(REFERENCE)
