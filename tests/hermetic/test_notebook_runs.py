"""An earlier run of a notebook counts only if nothing it depends on has changed since."""

import json
from pathlib import Path

import pytest
from tests.little_book import make_book

import notebook_runs


@pytest.fixture
def book(tmp_path):
    return make_book(tmp_path / "book")


def key(book, place="float32 on cpu") -> str:
    around = notebook_runs.surroundings(book, book / "model", place)
    return notebook_runs.run_key(book / "notebooks/one.ipynb", around)


def keep(book) -> tuple:
    """Put a result where results of the first notebook lie, with its record."""
    executed = book / notebook_runs.EXECUTED / "notebooks/one.ipynb"
    executed.parent.mkdir(parents=True)
    executed.write_text("what came out")
    record = {"key": key(book), "sha256": notebook_runs.sha256(executed.read_bytes())}
    notebook_runs.record_path(executed).write_text(json.dumps(record))
    return executed, record


def test_the_same_surroundings_give_the_same_key(book):
    assert key(book) == key(book)


def test_a_notebook_counts_by_its_cells_and_not_by_what_jupyterlab_writes_when_it_saves(book):
    before, path = key(book), book / "notebooks/one.ipynb"
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
        cell["metadata"] = dict(reversed(cell["metadata"].items()))
    notebook["metadata"]["language_info"] = {"name": "python"}
    path.write_text(json.dumps(notebook), "utf-8")
    assert key(book) == before
    notebook["cells"][-1]["source"] += " "
    path.write_text(json.dumps(notebook), "utf-8")
    assert key(book) != before


@pytest.mark.parametrize(
    "changed",
    ["src/inside_generate/core.py", "model/model.safetensors"],
)
def test_another_byte_in_what_it_depends_on_gives_another_key(book, changed):
    before = key(book)
    path = book / changed
    path.write_bytes(path.read_bytes() + b" ")
    assert key(book) != before


def test_a_new_file_in_the_package_gives_another_key_and_what_python_leaves_does_not(book):
    before = key(book)
    (book / "src/inside_generate/__pycache__").mkdir()
    (book / "src/inside_generate/__pycache__/core.pyc").write_bytes(b"x")
    assert key(book) == before
    (book / "src/inside_generate/more.py").write_text("")
    assert key(book) != before


def test_a_result_recorded_elsewhere_gives_another_key(book):
    before = key(book)
    (book / "book/results").mkdir(parents=True, exist_ok=True)
    (book / "book/results/a-machine.json").write_text("{}")
    assert key(book) != before


def test_another_device_or_dtype_gives_another_key(book):
    assert (
        key(book, "bfloat16 on cpu") != key(book, "float32 on cpu") != key(book, "float32 on cuda")
    )


@pytest.mark.parametrize("package", ["torch", "transformers", "matplotlib", "tokenizers"])
def test_another_version_of_what_computes_gives_another_key(book, package, monkeypatch):
    before = key(book)
    real = notebook_runs.version
    monkeypatch.setattr(
        notebook_runs, "version", lambda name: "0.0.1" if name == package else real(name)
    )
    assert key(book) != before


def test_another_notebook_or_page_leaves_the_key_alone(book):
    before = key(book)
    (book / "notebooks/two.ipynb").write_text("changed")
    (book / "book/index.md").write_text("changed")
    assert key(book) == before


def test_a_run_with_its_record_is_done(book):
    executed, record = keep(book)
    assert notebook_runs.is_done(executed, record["key"])


def test_a_run_of_other_sources_is_not_done(book):
    executed, _ = keep(book)
    assert not notebook_runs.is_done(executed, "another key")


def test_a_result_without_its_record_is_not_done(book):
    executed, record = keep(book)
    notebook_runs.record_path(executed).unlink()
    assert not notebook_runs.is_done(executed, record["key"])


def test_a_result_that_was_cut_short_or_changed_is_not_done(book):
    executed, record = keep(book)
    executed.write_text("what ca")
    assert not notebook_runs.is_done(executed, record["key"])


def test_a_record_that_was_cut_short_is_not_done(book):
    executed, record = keep(book)
    path = notebook_runs.record_path(executed)
    path.write_text(path.read_text()[:20])
    assert not notebook_runs.is_done(executed, record["key"])


def test_a_run_that_was_stopped_is_no_failed_notebook_and_leaves_nothing(book, monkeypatch):
    def stopped(_root, _staged, keeper):
        keeper.pytest_keyboard_interrupt()
        return 2

    monkeypatch.setattr(notebook_runs, "run_pytest", stopped)
    around = notebook_runs.surroundings(book, book / "model", "float32 on cpu")
    with pytest.raises(KeyboardInterrupt):
        notebook_runs.run_stale(book, [Path("notebooks/one.ipynb")], around)
    assert list(book.glob(".run-*")) == []
