"""What a page leaves out, what it folds, and when the pages on disk still stand."""

import json
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from tests.little_book import RUN, make_book

import pages

SLIDER = "application/vnd.jupyter.widget-view+json"


def page_version(*cells):
    return pages.page_version(new_notebook(cells=list(cells)), "some.ipynb")


def test_cells_with_live_widgets_stay_out_of_the_page():
    shown = page_version(new_markdown_cell("a"), new_code_cell("b", metadata={"tags": ["live"]}))
    assert [cell.source for cell in shown.cells] == ["a"]


def test_a_widget_in_any_other_cell_is_refused_with_the_cell_and_the_remedy():
    output = new_output("display_data", data={SLIDER: {}, "text/plain": "IntSlider()"})
    with pytest.raises(pages.BookError, match="cell 0 shows a widget: tag it `live`"):
        page_version(new_code_cell("slider", outputs=[output]))


def test_the_state_of_widgets_stays_out_of_the_page():
    notebook = new_notebook(metadata={"widgets": {"application/json": {}}})
    assert "widgets" not in pages.page_version(notebook, "some.ipynb").metadata


def test_a_solution_in_code_is_folded():
    [cell] = page_version(new_code_cell("42", metadata={"tags": ["solution"]})).cells
    assert cell.metadata.tags == ["hide-cell", "solution"]
    assert cell.metadata["mystnb"]["code_prompt_show"] == "Code of a solution"


def test_what_the_clock_said_does_not_make_another_page():
    [cell] = page_version(new_code_cell("1", metadata={"execution": {"iopub": "10:15"}})).cells
    assert "execution" not in cell.metadata


def test_the_contents_are_read_in_their_order(tmp_path):
    book = make_book(tmp_path / "book")
    names = [path.as_posix() for path in pages.documents(book)]
    assert names == ["book/index.md", "notebooks/one.ipynb", "notebooks/two.ipynb"]


def test_a_missing_file_in_the_contents_is_named(tmp_path):
    book = make_book(tmp_path / "book")
    (book / "notebooks/two.ipynb").unlink()
    with pytest.raises(pages.BookError, match=r"names notebooks/two, but there is neither"):
        pages.documents(book)


def test_contents_that_cannot_be_read_are_an_error_in_one_line(tmp_path):
    book = make_book(tmp_path / "book")
    (book / "_toc.yml").write_text("format: jb-book\nroots: book/index\n")
    with pytest.raises(pages.BookError, match=r"^_toc\.yml: .*"):
        pages.documents(book)


def test_pages_are_current_only_with_their_record_and_all_files(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("x")
    assert not pages.are_current(tmp_path, "f", [page])
    (tmp_path / "_build").mkdir()
    (tmp_path / pages.MADE_FROM).write_text('{"fingerprint": "f"}')
    assert pages.are_current(tmp_path, "f", [page])
    assert not pages.are_current(tmp_path, "other", [page])
    assert not pages.are_current(tmp_path, "f", [page, tmp_path / "gone.html"])


@pytest.mark.parametrize("changed", ["_config.yml", "_toc.yml", "book/_static/custom.css"])
def test_a_change_of_settings_contents_or_style_makes_pages_anew(tmp_path, changed):
    book = make_book(tmp_path / "book")
    pages.publish(book, [])
    before = pages.fingerprint(book)
    with (book / changed).open("a") as file:
        file.write("\nnumbered: 1\n" if changed == "_config.yml" else "\n# changed\n")
    pages.publish(book, [])
    assert pages.fingerprint(book) != before


def executed(book, path: str) -> Path:
    """Lay down what a run of a notebook leaves behind, with its record."""
    target = book / pages.EXECUTED / path
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.read(book / path, 4), target)
    target.with_suffix(".run.json").write_text(json.dumps(RUN))
    return Path(path)


def test_a_page_ends_in_the_time_and_memory_of_its_run(tmp_path):
    book = make_book(tmp_path / "book")
    path = executed(book, "notebooks/two.ipynb")
    source = pages.publish(book, [path])
    last = nbformat.read(source / path, 4).cells[-1]
    assert last.cell_type == "markdown"
    for said in ("12 s", "1.5 GiB", "some-model", "float32 on cpu: a processor", "2026-11-29"):
        assert said in last.source


def test_the_page_on_figures_lists_every_run(tmp_path):
    book = make_book(tmp_path / "book")
    paths = [executed(book, f"notebooks/{name}.ipynb") for name in ("one", "two")]
    source = pages.publish(book, paths)
    table = (source / "book/figures.md").read_text("utf-8").split("## The runs behind")[1]
    assert "| [](../notebooks/one.ipynb) | 12 | 1.5 | 2026-11-29 |" in table
    assert "| [](../notebooks/two.ipynb) | 12 | 1.5 | 2026-11-29 |" in table


def test_published_settings_run_no_notebook_again(tmp_path):
    book = make_book(tmp_path / "book")
    source = pages.publish(book, [])
    assert "execute_notebooks: 'off'" in (source / "_config.yml").read_text("utf-8")
