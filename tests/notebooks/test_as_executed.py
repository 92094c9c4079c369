"""What the notebooks put out when they ran for the book: current, clean, and told in words."""

import re

import nbformat
import pytest

import build
import notebook_runs
import pages
from inside_generate.finding import find

ROOT = notebook_runs.Path(__file__).parents[2]
LESSONS = [document for document in pages.documents(ROOT) if document.suffix == ".ipynb"]


@pytest.fixture(scope="module")
def around():
    return notebook_runs.surroundings(ROOT, find(), build.place())


@pytest.fixture(params=LESSONS, ids=lambda path: path.stem)
def lesson(request):
    return request.param


@pytest.fixture
def cells(lesson):
    notebook = nbformat.read(ROOT / notebook_runs.EXECUTED / lesson, 4)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(cell, kind: str) -> list:
    return [output for output in cell.outputs if output.output_type == kind]


def shown(cell) -> set[str]:
    """The kinds of data that a cell shows: text, pictures, widgets."""
    return {kind for output in cell.outputs for kind in output.get("data", {})}


def test_lesson_has_run_with_what_is_here_now(lesson, around):
    key = notebook_runs.run_key(ROOT / lesson, around)
    assert notebook_runs.is_done(ROOT / notebook_runs.EXECUTED / lesson, key)


def test_every_cell_of_the_lesson_ran_once_and_in_order(cells):
    counts = [cell.execution_count for cell in cells if cell.source.strip()]
    assert counts == list(range(1, len(counts) + 1))


def test_lesson_raises_no_error_but_where_it_says_so(cells):
    meant = [cell for cell in cells if "raises-exception" in pages.tags(cell)]
    raised = [cell for cell in cells if outputs(cell, "error")]
    assert [cell.source for cell in raised] == [cell.source for cell in meant]


def test_lesson_writes_nothing_to_stderr(cells):
    streams = [output for cell in cells for output in outputs(cell, "stream")]
    assert [stream.text for stream in streams if stream.name == "stderr"] == []


def test_every_picture_of_the_lesson_has_words_and_a_caption(cells):
    for cell in cells:
        if any(kind.startswith("image/") for kind in shown(cell)):
            assert cell.metadata["mystnb"]["image"]["alt"], cell.source
            assert cell.metadata["mystnb"]["figure"]["caption"], cell.source


def test_every_cell_that_promises_a_picture_shows_one(cells):
    for cell in cells:
        if "mystnb" in cell.metadata and "figure" in cell.metadata["mystnb"]:
            assert any(kind.startswith("image/") for kind in shown(cell)), cell.source


def test_a_widget_stands_in_live_cells_only(cells):
    with_widget = [cell for cell in cells if pages.shows_widget(cell)]
    assert [cell.source for cell in with_widget if "live" not in pages.tags(cell)] == []


def test_every_solution_that_is_checked_is_right(cells):
    """In the lesson's own words, printed by the check; a check is called as ``check_…(…)``."""
    solutions = [cell for cell in cells if "solution" in pages.tags(cell)]
    checked = [cell for cell in solutions if re.search(r"\bcheck_\w+\(", cell.source)]
    said = {cell.source: "".join(out.text for out in outputs(cell, "stream")) for cell in checked}
    assert checked
    assert [source for source, text in said.items() if not text.startswith("Right.")] == []
