"""Notebooks run once, when they have to; a failing one can never end in a green run or a page."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from tests.little_book import ROOT, build, make_book, write_notebook

RAISES = new_code_cell("answer = 41\nassert answer == 42, f'{answer} is not the answer'")


def page(book, name: str):
    return book / f"_build/html/notebooks/{name}.html"


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A little book, built after each of a few changes; what each build did, by name."""
    book = make_book(tmp_path_factory.mktemp("story") / "book")
    told = {"first": build(book)}
    made = page(book, "one").stat().st_mtime_ns
    told["unchanged"] = build(book)
    told["same pages"] = page(book, "one").stat().st_mtime_ns == made
    (book / "book/index.md").write_text("# A little book\n\nOf two notebooks.\n")
    told["page edited"] = build(book)
    write_notebook(book / "notebooks/two.ipynb", new_markdown_cell("# Two"), new_code_cell("3"))
    told["notebook edited"] = build(book)
    (book / "src/inside_generate/core.py").write_text("ANSWER = 43\n")
    told["package edited"] = build(book, "--notebooks-only")
    told["book"] = book
    return told


def test_the_first_build_runs_every_notebook_and_makes_every_page(story):
    assert story["first"].status == 0, story["first"].said
    assert story["first"].ran == ("one", "two")
    assert "2 passed" in story["first"].said
    assert page(story["book"], "one").is_file()


def test_with_nothing_changed_nothing_runs_and_no_page_is_made(story):
    assert story["unchanged"].status == 0
    assert story["unchanged"].ran == ()
    assert story["same pages"]


def test_an_edited_page_is_made_anew_without_running_a_notebook(story):
    assert story["page edited"].ran == ()
    html = (story["book"] / "_build/html/book/index.html").read_text("utf-8")
    assert "Of two notebooks." in html


def test_after_an_edit_in_one_notebook_only_that_one_runs(story):
    assert story["notebook edited"].ran == ("two",)


def test_after_an_edit_in_the_package_every_notebook_runs(story):
    assert story["package edited"].ran == ("one", "two")


def test_the_kernel_is_the_python_of_this_environment(story):
    executed = story["book"] / "_build/executed/notebooks/one.ipynb"
    assert sys.prefix in executed.read_text("utf-8")


def test_each_run_leaves_its_seconds_and_its_peak_of_memory(story):
    record = story["book"] / "_build/executed/notebooks/one.run.json"
    run = json.loads(record.read_text("utf-8"))
    assert run["notebook"] == "notebooks/one.ipynb"
    assert run["seconds"] > 0
    assert run["peak_memory_bytes"] > 10_000_000  # a Python at rest holds more


def test_a_page_shows_figures_folds_solutions_and_leaves_out_widgets(story):
    html = page(story["book"], "one").read_text("utf-8")
    assert 'alt="a line that rises"' in html
    assert "Code of a solution" in html
    assert "<math" in html
    assert "IntSlider" not in html


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """A little book whose second notebook raises, built twice."""
    book = make_book(tmp_path_factory.mktemp("failing") / "book")
    write_notebook(book / "notebooks/two.ipynb", new_markdown_cell("# Two"), RAISES)
    return book, build(book), build(book)


def test_a_notebook_that_raises_fails_the_build_with_its_traceback(failing):
    _, first, again = failing
    assert first.status != 0
    assert again.status != 0
    assert "41 is not the answer" in first.said
    assert "no page was made" in first.said


def test_no_page_is_made_from_a_notebook_that_raised(failing):
    book, _, _ = failing
    assert not (book / "_build/html").exists()
    assert not (book / "_build/executed/notebooks/two.ipynb").exists()


def test_what_ran_through_beside_a_failing_notebook_is_kept(failing):
    _, first, again = failing
    assert first.ran == ("one", "two")
    assert again.ran == ("two",)


def test_nothing_of_a_failed_run_lies_about(failing):
    book, _, _ = failing
    assert list(book.glob(".run-*")) == []


SLEEPS = "import pathlib, time\n\npathlib.Path('../begun').touch()\ntime.sleep(60)"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_a_build_that_is_asked_to_end_begins_no_other_notebook(tmp_path, number):
    book = make_book(tmp_path / "book")
    write_notebook(book / "notebooks/one.ipynb", new_markdown_cell("# One"), new_code_cell(SLEEPS))
    command = [sys.executable, ROOT / "book/build.py", "--root", book]
    around = os.environ | {"INSIDE_GENERATE_MODEL": str(book / "model")}
    log = tmp_path / "said"
    with log.open("w") as said:
        process = subprocess.Popen(command, env=around, stdout=said, stderr=said)
    until = time.monotonic() + 120
    while not (book / "begun").exists() and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(60) == 130, log.read_text()
    assert log.read_text().endswith("stopped\n")
    assert "two.ipynb" not in log.read_text()
    assert list(book.glob(".run-*")) == []


def test_a_kernel_of_the_same_name_elsewhere_is_not_taken(tmp_path):
    book = make_book(tmp_path / "book")
    kernel = tmp_path / "data/kernels/python3/kernel.json"
    kernel.parent.mkdir(parents=True)
    spec = {"argv": ["/nonexistent/python", "{connection_file}"], "display_name": "Other"}
    kernel.write_text(json.dumps(spec | {"language": "python"}))
    settings = {"JUPYTER_DATA_DIR": str(tmp_path / "data"), "JUPYTER_PREFER_ENV_PATH": "0"}
    done = build(book, "--notebooks-only", **settings)
    assert done.status == 0, done.said


def test_an_unknown_model_is_an_error_in_one_line(tmp_path):
    book = make_book(tmp_path / "book")
    done = build(book, INSIDE_GENERATE_MODEL="no-such-model")
    assert done.status != 0
    assert done.said.startswith("error: ")
    assert done.said.count("\n") == 1
