"""A build that fails or is stopped says so, keeps what ran through, and makes no page."""

import os
import signal
import subprocess
import sys
import time

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from tests.little_book import ROOT, build, make_book, write_notebook

RAISES = new_code_cell("answer = 41\nassert answer == 42, f'{answer} is not the answer'")
SLEEPS = "import pathlib, time\n\npathlib.Path('../begun').touch()\ntime.sleep(60)"


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
    assert "notebooks/two.ipynb failed: see above; no page was made" in first.said


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


def test_an_unknown_model_is_an_error_in_one_line(tmp_path):
    book = make_book(tmp_path / "book")
    done = build(book, INSIDE_GENERATE_MODEL="no-such-model")
    assert done.status != 0
    assert done.said.startswith("error: ")
    assert done.said.count("\n") == 1
