"""Notebooks run once, when they have to, in this environment's own Python."""

import json
import sys

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from tests.little_book import build, make_book, write_notebook


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
    assert story["first"].said.startswith("Running 2 of 2 notebooks")
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


def test_a_kernel_of_the_same_name_elsewhere_is_not_taken(tmp_path):
    book = make_book(tmp_path / "book")
    kernel = tmp_path / "data/kernels/python3/kernel.json"
    kernel.parent.mkdir(parents=True)
    spec = {"argv": ["/nonexistent/python", "{connection_file}"], "display_name": "Other"}
    kernel.write_text(json.dumps(spec | {"language": "python"}))
    settings = {"JUPYTER_DATA_DIR": str(tmp_path / "data"), "JUPYTER_PREFER_ENV_PATH": "0"}
    done = build(book, "--notebooks-only", **settings)
    assert done.status == 0, done.said
