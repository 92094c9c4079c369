"""The reference comes from the hub, checked, and a download goes on where it stopped."""

import threading

import pytest
from huggingface_hub import constants
from tests.hermetic.fetching.steps import AGAIN, complete, nothing_to_load

from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, WEIGHTS
from inside_generate.errors import InsideGenerateError, UnavailableError
from inside_generate.finding import find
from inside_generate.getting import fetch as fetching
from inside_generate.getting import hub
from inside_generate.getting.fetch import fetch
from inside_generate.home import download_directory, model_directory
from inside_generate.models import identity, load


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


def test_the_directory_appears_finished_by_one_rename(the_hub, monkeypatch):
    finished, real = [], fetching.write_manifest

    def last_step(folder, *facts):
        real(folder, *facts)
        assert not model_directory(REFERENCE).exists()
        finished.append(folder.stat().st_ino)

    monkeypatch.setattr(fetching, "write_manifest", last_step)
    assert [fetch(REFERENCE).stat().st_ino] == finished


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
