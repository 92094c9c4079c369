"""Recordings are those that pages ask for, made again only when stale, kept whole or not at all."""

import json
import subprocess

import pytest

import recordings
from inside_generate import generate, run_record
from inside_generate.record import write_json
from pages import SOURCE, BookError

AROUND = {"model_name": "tiny", "place": "float32 on cpu"}


@pytest.fixture
def book(tmp_path, monkeypatch, model, tokenizer):
    """A book's folder in which a recording is made by a tiny model, and counted."""
    made = []

    def run(prompt, limit, target):
        made.append(prompt)
        trace = generate(model, tokenizer, prompt, max_new_tokens=3)
        write_json(run_record(trace, model), target)

    monkeypatch.setattr(recordings, "run", run)
    return tmp_path, made


def test_pages_ask_for_recordings_by_name_and_each_is_made_once(tmp_path):
    (tmp_path / "a.md").write_text("# A\n\n```{player} sky lunch\n```\n\n```{player} lunch\n```\n")
    (tmp_path / "b.md").write_text("no player\n")
    pages = [recordings.Path(name) for name in ("a.md", "b.md", "c.ipynb")]
    assert recordings.wanted(tmp_path, pages) == ["sky", "lunch"]


def test_an_unknown_recording_is_an_error_in_one_line(tmp_path):
    (tmp_path / "a.md").write_text("```{player} supper\n```\n")
    with pytest.raises(BookError, match=r"^no recording is called supper; there are lunch, sky"):
        recordings.wanted(tmp_path, [recordings.Path("a.md")])


def test_a_recording_is_made_again_only_when_something_changed(book):
    root, made = book
    assert recordings.record_stale(root, ["lunch"], AROUND) == 1
    assert recordings.record_stale(root, ["lunch"], AROUND) == 0
    assert recordings.record_stale(root, ["lunch"], AROUND | {"place": "elsewhere"}) == 1
    (root / recordings.RECORDED / "lunch.json").write_text("{}")
    assert recordings.record_stale(root, ["lunch"], AROUND) == 1
    assert len(made) == 3


def test_a_recording_that_is_no_run_is_refused_and_does_not_count(book, monkeypatch):
    root, _ = book
    monkeypatch.setattr(recordings, "run", lambda prompt, limit, target: target.write_text("{}"))
    for _ in range(2):
        with pytest.raises(BookError, match=r"^lunch\.json: not a run as the schema describes it"):
            recordings.record_stale(root, ["lunch"], AROUND)


def test_a_run_that_fails_is_told_in_one_line(tmp_path, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, stdout="", stderr="a remark\nerror: no model\n")
    monkeypatch.setattr(recordings.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(BookError, match=r"^'soup' could not be recorded: no model$"):
        recordings.run("soup", 64, tmp_path / "soup.json")


def test_what_players_show_lies_beside_the_sources_of_the_pages(book):
    root, _ = book
    recordings.record_stale(root, ["lunch"], AROUND)
    recordings.publish(root, ["lunch"])
    shown = json.loads((root / SOURCE / "players/lunch.json").read_text("utf-8"))
    assert shown["prompt"] == recordings.PROMPTS["lunch"]
    assert len(shown["steps"]) == 3
    assert "customElements" in (root / SOURCE / "book/_static/player.js").read_text("utf-8")


def test_pages_without_their_recordings_are_an_error_in_one_line(tmp_path):
    with pytest.raises(BookError, match=r"^sky\.json is not recorded yet; type `make book`$"):
        recordings.publish(tmp_path, ["sky"])
