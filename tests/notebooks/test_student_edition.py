"""The students' edition runs: untouched exercises are told so in words, and nothing breaks.

On the small model. One lesson here; all of them where TEST_ALL is set, as `make test-all` does.
"""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import chapters
import notebook_runs
import pages
import student
from inside_generate.exercises.checking import UNTRIED

ROOT = Path(__file__).parents[2]
ONE = ["09_stopping"]
LESSONS = sorted(chapters.notebooks(ROOT)) if os.environ.get("TEST_ALL") else ONE


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The edition as `python book/student.py` makes it, outside of the repository."""
    made = tmp_path_factory.mktemp("workshop") / "student"
    assert student.main(["--output", str(made)]) == 0
    return made


def said(cell) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


@pytest.mark.parametrize("lesson", LESSONS)
def test_untried_exercises_are_told_so_and_nothing_breaks(lesson, folder, small, monkeypatch):
    monkeypatch.setenv("INSIDE_GENERATE_MODEL", small)
    monkeypatch.setenv("INSIDE_GENERATE_DTYPE", "float32")  # no near ties, nothing to measure first
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # two lessons run at a time
    notebook = nbformat.read(folder / f"notebooks/{lesson}.ipynb", 4)
    place = {"metadata": {"path": str(folder / "notebooks")}}
    with notebook_runs.kernel_environment():
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=place).execute()
    checks = [cell for cell in notebook.cells if "check" in pages.tags(cell)]
    assert checks
    assert {said(cell).strip() for cell in checks} == {UNTRIED}
