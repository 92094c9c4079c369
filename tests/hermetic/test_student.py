"""The students' edition: no solution is left, all else is, and nobody's folder is taken away."""

import functools
import json
import re
from pathlib import Path, PurePosixPath

import nbformat
import pytest

import chapters
import student
from pages import tags

ROOT = Path(__file__).parents[2]
SOURCES = chapters.notebooks(ROOT)
EDITION = functools.cache(student.edition)  # making it takes a second
FILES = EDITION(ROOT)
LINK = re.compile(r"\]\(([^)\s#]+)")
ADDRESS = ("https://", "http://", "mailto:")
FOLDED_SOLUTION = re.compile(
    r"<details><summary>(?:Solution|What you may find)</summary>(.*?)</details>", flags=re.DOTALL
)
ELSEWHERE = re.compile(r"```.*?```|`[^`\n]*`", flags=re.DOTALL)


def made(name: str):
    return nbformat.reads(FILES[PurePosixPath("notebooks", f"{name}.ipynb")].decode(), 4)


@pytest.fixture(params=sorted(SOURCES))
def name(request) -> str:
    return request.param


@pytest.fixture
def edition(name):
    return made(name)


def solutions(name: str) -> list:
    return [cell for cell in SOURCES[name].cells if "solution" in tags(cell)]


def others(name: str) -> list:
    return [cell for cell in SOURCES[name].cells if "solution" not in tags(cell)]


def lines(cells) -> set[str]:
    return {line.strip() for cell in cells for line in cell.source.split("\n")}


def test_every_notebook_of_the_course_is_in_it():
    assert {path.stem for path in FILES if path.suffix == ".ipynb"} == set(SOURCES) != set()


def test_notebook_is_valid_and_holds_no_output(edition):
    nbformat.validate(edition)
    cells = [cell for cell in edition.cells if cell.cell_type == "code"]
    assert [cell.source for cell in cells if cell.outputs or cell.execution_count] == []


def test_no_solutions_code_is_left(name, edition):
    """A line that the lesson itself has, such as one of a loop that it teaches, may stay there."""
    own = lines(solutions(name)) - lines(others(name))
    assert own
    assert own & lines(edition.cells) == set()
    assert [cell.source for cell in edition.cells if "solution" in tags(cell)] == []


def test_no_solutions_words_are_left(name, edition):
    text = "\n".join(cell.source for cell in edition.cells)
    source = "\n".join(cell.source for cell in others(name) if cell.cell_type == "markdown")
    words = [part.strip() for part in FOLDED_SOLUTION.findall(source)]
    assert words
    assert [part for part in words if part in text] == []
    assert "<summary>Solution" not in text


def test_what_is_folded_in_the_lesson_itself_stays():
    text = "\n".join(cell.source for cell in made("17_breaking_it").cells)
    assert text.count("<summary>Diagnosis</summary>") == 18


def test_all_other_cells_stay_with_their_ids_in_order(name, edition):
    kept = [(cell.id, cell.source) for cell in edition.cells if cell.cell_type == "code"]
    code = [(cell.id, cell.source) for cell in others(name) if cell.cell_type == "code"]
    assert kept == code
    ids = [cell.id for cell in edition.cells]
    before = [cell.id for cell in others(name)]
    assert ids == [one for one in before if one in set(ids)]
    emptied = [cell for cell in others(name) if cell.id not in set(ids)]
    assert [FOLDED_SOLUTION.sub("", cell.source).strip() for cell in emptied] == [""] * len(emptied)


def test_checks_and_the_learners_own_cells_are_there(name, edition):
    checks = [cell for cell in edition.cells if "check" in tags(cell)]
    assert checks
    assert any(re.search(r"^my_\w+ = \.\.\.|^def my_", cell.source, re.M) for cell in edition.cells)


@pytest.mark.parametrize("path", sorted(map(str, FILES)))
def test_no_link_is_dead(path):
    if not path.endswith((".ipynb", ".md")):
        return
    text = FILES[PurePosixPath(path)].decode()
    if path.endswith(".ipynb"):
        cells = nbformat.reads(text, 4).cells
        text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    here = Path("/edition", path).parent
    there = {Path("/edition", one) for one in FILES}
    for link in LINK.findall(ELSEWHERE.sub("`code`", text)):
        if not link.startswith(ADDRESS):
            assert Path(re.sub(r"/[^/]+/\.\./", "/", str(here / link))) in there, link


def test_the_pages_hold_nothing_that_only_sphinx_understands():
    pages = [content.decode() for path, content in FILES.items() if path.suffix == ".md"]
    assert len(pages) > 4
    assert [page[:60] for page in pages if re.search(r"\{\w+\}`|```\{|^:::", page, re.M)] == []


# --- the folder -----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def made_once(monkeypatch):
    monkeypatch.setattr(student, "edition", EDITION)


def make(folder: Path, *more: str) -> int:
    return student.main(["--output", str(folder), *more])


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_twice_makes_the_same_and_says_where(tmp_path, capsys):
    folder = tmp_path / "new" / "student"
    assert make(folder) == 0
    first = contents(folder)
    assert make(folder) == 0
    assert contents(folder) == first
    assert capsys.readouterr().out.splitlines()[1] == (
        f"{len(SOURCES)} notebooks without solutions in {folder}"
    )
    assert [path.name for path in folder.parent.iterdir()] == ["student"]


def test_by_default_it_lies_below_build():
    assert student.OUTPUT.as_posix() == "_build/student"


@pytest.mark.parametrize("what", ["folder", "empty folder", "file"])
def test_what_somebody_else_made_is_never_touched(tmp_path, capsys, what):
    place = tmp_path / "mine"
    if what == "file":
        place.write_text("mine")
    else:
        place.mkdir()
    if what == "folder":
        (place / "thesis.txt").write_text("mine")
    before = contents(tmp_path)
    assert make(place) == 1
    assert contents(tmp_path) == before
    said = capsys.readouterr().err
    assert said == (
        f"error: {place} was not made by this program; give another one: --output FOLDER\n"
    )


def test_a_link_that_leads_to_itself_is_an_error_of_one_line(tmp_path, capsys):
    (tmp_path / "loop").symlink_to("loop")
    assert make(tmp_path / "loop") == 1
    assert capsys.readouterr().err.startswith("error: ")
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]


def test_an_edition_that_was_only_looked_at_is_made_anew(tmp_path):
    folder = tmp_path / "student"
    make(folder)
    lesson = folder / "notebooks/00_the_whole_path.ipynb"
    kept = lesson.parent / f".ipynb_checkpoints/{lesson.stem}-checkpoint.ipynb"  # by JupyterLab
    kept.parent.mkdir()
    kept.write_bytes(lesson.read_bytes())
    assert make(folder) == 0
    assert not kept.exists()


@pytest.mark.parametrize("mark", ["[]", "null", '"x"', "[1]", "{"])
def test_a_folder_whose_mark_is_none_is_never_touched(tmp_path, capsys, mark):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("mine")
    (tmp_path / "mine" / student.MARK).write_text(mark)
    before = contents(tmp_path)
    assert make(tmp_path / "mine") == 1
    assert contents(tmp_path) == before
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("change", ["an answer", "a new file"])
def test_a_learners_work_in_it_is_never_taken_away(tmp_path, capsys, change):
    folder = tmp_path / "student"
    make(folder)
    lesson = folder / "notebooks/00_the_whole_path.ipynb"
    if change == "an answer":
        lesson.write_text(lesson.read_text("utf-8").replace("...", "(1, T - 1)", 1), "utf-8")
    else:
        lesson = folder / "notebooks/mine.ipynb"
        lesson.write_text("{}")
    before = contents(folder)
    assert make(folder) == 1
    assert contents(folder) == before
    said = capsys.readouterr().err
    assert f"({lesson.relative_to(folder).as_posix()} changed)" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError(28, "No space left on device"), 1), (KeyboardInterrupt(), 130)],
    ids=["full disk", "stopped"],
)
def test_where_the_new_folder_cannot_be_put_in_place_the_old_one_stays(
    tmp_path, monkeypatch, error, code
):
    folder = tmp_path / "student"
    make(folder)
    before, real = contents(folder), Path.replace

    def fails_once(self, target):
        if self.name == "new":
            raise error
        return real(self, target)

    monkeypatch.setattr(Path, "replace", fails_once)
    assert make(folder) == code
    assert contents(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["student"]


def test_a_folder_without_notebooks_to_make_it_from_leaves_nothing(tmp_path, capsys):
    root = tmp_path / "course"
    (root / "notebooks").mkdir(parents=True)
    (root / "notebooks/broken.ipynb").write_text("not json")
    assert make(tmp_path / "student", "--root", str(root)) == 1
    assert "broken.ipynb is no notebook" in capsys.readouterr().err
    assert not (tmp_path / "student").exists()


def test_the_mark_names_every_file(tmp_path):
    make(tmp_path / "student")
    mark = json.loads((tmp_path / "student" / student.MARK).read_text("utf-8"))
    assert set(mark) == set(map(str, FILES))
