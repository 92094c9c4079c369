"""The notebooks in git hold to what the course has agreed on (CONTRIBUTING.md, "Notebooks")."""

import json
import re
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest

from pages import documents

ROOT = Path(__file__).parents[2]
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TAGS = {
    *("solution", "check", "live", "timing", "raises-exception"),
    *("hide-cell", "hide-input", "hide-output", "remove-cell", "remove-input", "remove-output"),
}
LONGEST_CELL = 15
DIRECTIVE = re.compile(r"^\s*(:::|(```|~~~)\{)", flags=re.MULTILINE)
ROLE = re.compile(r"\{[a-z][\w:-]*\}`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)[^)]*\)")
HEADING = re.compile(r"^(#+) (.*)", flags=re.MULTILINE)


@pytest.fixture(params=PATHS, ids=lambda path: path.stem)
def path(request) -> Path:
    return request.param


@pytest.fixture
def notebook(path):
    return nbformat.read(path, 4)


def source(notebook, kind: str) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == kind]


def prose(notebook) -> str:
    """All Markdown of a notebook, without what stands in code."""
    text = "\n\n".join(source(notebook, "markdown"))
    return re.sub(r"```.*?```|`[^`\n]*`", "`code`", text, flags=re.DOTALL)


def headings(notebook) -> list[tuple[int, str]]:
    return [(len(marks), title) for marks, title in HEADING.findall(prose(notebook))]


def figures(notebook) -> list[dict]:
    return [cell.metadata.mystnb for cell in notebook.cells if "mystnb" in cell.metadata]


def test_there_are_notebooks_and_the_contents_list_each_of_them():
    listed = {ROOT / document for document in documents(ROOT) if document.suffix == ".ipynb"}
    assert listed == set(PATHS) != set()


def test_notebook_is_valid_and_for_the_usual_kernel(path, notebook):
    nbformat.validate(json.loads(path.read_text("utf-8")))
    assert notebook.metadata.kernelspec.name == "python3"


def test_notebook_holds_no_output_and_no_trace_of_a_run(notebook):
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.source for cell in cells if cell.outputs or cell.execution_count] == []
    assert [cell.source for cell in cells if "execution" in cell.metadata] == []
    assert "widgets" not in notebook.metadata


def test_notebook_has_one_title_and_begins_with_it(notebook):
    found = headings(notebook)
    assert [level for level, _ in found].count(1) == 1
    assert found[0][0] == 1
    assert notebook.cells[0].source.startswith("# ")


def test_notebook_has_overview_summary_exercises_and_says_what_comes_next(notebook):
    sections = [title for level, title in headings(notebook) if level == 2]
    assert sections[0] == "Overview"
    assert {"Summary", "Exercises"} <= set(sections)
    assert "**Next**" in notebook.cells[-1].source


def test_headings_leave_out_no_level(notebook):
    levels = [level for level, _ in headings(notebook)]
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_notebook_uses_known_tags_only(notebook):
    used = {tag for cell in notebook.cells for tag in cell.metadata.get("tags", [])}
    assert used <= TAGS


def test_notebook_is_standard_markdown(notebook):
    assert DIRECTIVE.findall("\n".join(source(notebook, "markdown"))) == []
    assert ROLE.findall("\n".join(source(notebook, "markdown"))) == []


def test_links_within_the_course_are_relative_and_lead_somewhere(path, notebook):
    for target in LINK.findall(prose(notebook)):
        if not target.startswith(("https://", "http://", "#")):
            assert (path.parent / target.split("#")[0]).exists(), target


def test_pictures_in_the_prose_have_words(notebook):
    assert re.findall(r"!\[\s*\]\([^)]*\)", prose(notebook)) == []
    assert re.findall(r"<img(?![^>]*\balt=\"[^\"]+\")[^>]*>", prose(notebook)) == []


def test_every_figure_has_words_a_caption_and_a_name(notebook):
    for figure in figures(notebook):
        assert len(figure.image.alt.split()) >= 4
        assert figure.figure.caption.strip()
        assert figure.figure.caption != figure.image.alt  # a reader of both hears it once
        assert figure.figure.name.startswith("fig-")


def test_no_two_figures_share_a_name():
    names = [figure.figure.name for path in PATHS for figure in figures(nbformat.read(path, 4))]
    assert len(names) == len(set(names))


def test_cells_are_short(notebook):
    assert max(map(lines_of_work, source(notebook, "code"))) <= LONGEST_CELL


def lines_of_work(text: str) -> int:
    """The lines of a cell, without empty ones and imports."""
    return sum(
        bool(line) and not line.startswith(("from ", "import ")) for line in text.split("\n")
    )


def test_folded_solutions_open_and_close_and_say_what_they_hide(notebook):
    for text in source(notebook, "markdown"):
        opened = text.count("<details>")
        assert text.count("</details>") == opened
        assert len(re.findall(r"<details>\s*<summary>[^<]+</summary>\n\n", text)) == opened
        assert len(re.findall(r"\n\n</details>", text)) == opened


def test_cells_need_no_shell_and_no_installing(notebook):
    lines = [line for text in source(notebook, "code") for line in text.splitlines()]
    assert [line for line in lines if line.startswith(("!", "%", "%%"))] == []


def test_pages_beside_the_notebooks_compute_nothing():
    written = [document for document in documents(ROOT) if document.suffix == ".md"]
    assert [page for page in written if "{code-cell}" in (ROOT / page).read_text("utf-8")] == []
