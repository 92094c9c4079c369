"""Readers run cells again: each cell, run twice in a row, says the same, with one model in memory.

On the small model, where it is on disk: it is the quickest, and the lessons hold for every model.
One lesson here; all of them where TEST_ALL is set, as `make test-all` does.
"""

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

import chapters
import notebook_runs
import pages

ROOT = Path(__file__).parents[2]
ONE = ["07_kv_cache"]
LESSONS = sorted(chapters.notebooks(ROOT)) if os.environ.get("TEST_ALL") else ONE
COUNT_MODELS = """
import gc

from transformers import PreTrainedModel

models = [thing for thing in gc.get_objects() if issubclass(type(thing), PreTrainedModel)]
loaded = [(one.name_or_path, one.dtype, one.device) for one in models
          if one.name_or_path and hasattr(one, "lm_head")]
assert len(loaded) == len(set(loaded)), loaded
"""


def doubled(lesson: str):
    """The lesson with each cell of code followed by itself, and a count of models at the end."""
    notebook = nbformat.read(ROOT / f"notebooks/{lesson}.ipynb", 4)
    cells = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            again = nbformat.from_dict(cell)
            cells += [cell, nbformat.from_dict({**again, "id": f"{cell.id}-again"})]
    notebook.cells = [*cells, new_code_cell(COUNT_MODELS)]
    return notebook


def text(cell) -> str:
    """All that a cell says in words, without addresses in memory and times of day."""
    said = ""  # what is printed may come in one piece or in several
    for output in cell.outputs:
        said += output.get("text") or output.get("evalue", "")
        said += output.get("data", {}).get("text/plain", "")
    return re.sub(r"0x[0-9a-f]+|\d{4}-\d\d-\d\dT[\d:.+]+", "…", said)


@pytest.mark.parametrize("lesson", LESSONS)
def test_each_cell_can_be_run_twice_and_says_the_same(lesson, small, monkeypatch):
    monkeypatch.setenv("INSIDE_GENERATE_MODEL", small)
    monkeypatch.setenv("INSIDE_GENERATE_DTYPE", "float32")  # no near ties, nothing to measure first
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # two lessons run at a time
    notebook = doubled(lesson)
    place = {"metadata": {"path": str(ROOT / "notebooks")}}
    with notebook_runs.kernel_environment():
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=place).execute()
    pairs = zip(notebook.cells[:-1:2], notebook.cells[1:-1:2], strict=True)
    steady = [pair for pair in pairs if "timing" not in pages.tags(pair[0])]
    assert [text(once) for once, _ in steady] == [text(again) for _, again in steady]
