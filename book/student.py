"""Makes the students' edition of the notebooks: `python book/student.py [--output FOLDER]`.

The same notebooks without solutions, in code and in words; checks and the learner's own cells stay.
Beside them lie the pages that they link to, so that no link is dead. The package is installed as
usual. A folder is replaced as a whole, and only one that this program made and nobody changed.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import installed  # noqa: F401

# isort: split
import nbformat

import endings
from chapters import notebooks
from in_place import put_in_place
from inside_generate.arguments import OneLineParser
from notebook_runs import sha256
from pages import BookError, tags

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = Path("_build/student")
MARK = ".student-edition.json"  # which files were made, and the SHA-256 of each
EXERCISES = "\n## Exercises\n"
FOLDED = re.compile(r"\n*<details>.*?</details>\n*", flags=re.DOTALL)
LINK = re.compile(r"\]\(([^)\s#]+\.md)")
FENCE = re.compile(r"```\{bibliography\}.*?```", flags=re.DOTALL)
README = """\
# Inside generate(), the students' edition

These are the notebooks of the course without the solutions. Open
`notebooks/00_the_whole_path.ipynb` in JupyterLab and go through it from the top, cell by cell. Each
notebook runs alone; the last cell of each says which is next.

In an exercise, write your answer in the place of `...`, run the cell, then the check below it. It
says "Right." or gives a hint. As long as you have not begun, it says so, and nothing breaks.

The notebooks need the course's package and a model. `python -m inside_generate doctor` says in its
last line whether all is ready, and what to type if it is not.

Your work in this folder is safe: it is made anew only where nothing in it was changed.
"""

Files = dict[PurePosixPath, bytes]


def edition(root: Path) -> Files:
    """All files of the students' edition of the course at `root`, by their place in it."""
    lessons = {name: student_version(one) for name, one in notebooks(root).items()}
    files = {
        PurePosixPath("notebooks", f"{name}.ipynb"): f"{nbformat.writes(one, 4)}\n".encode()
        for name, one in lessons.items()
    }
    prose = [cell.source for one in lessons.values() for cell in one.cells]
    linked = {PurePosixPath(link).name for text in prose for link in LINK.findall(text)}
    files |= pages_behind(root, linked)
    files[PurePosixPath("README.md")] = README.encode()
    files[PurePosixPath("LICENSE")] = (root / "LICENSE").read_bytes()
    return files


def student_version(notebook: Any) -> Any:
    """The notebook as it came, changed: no solution, no trace of a run, all other cells kept."""
    notebook.metadata.pop("widgets", None)
    kept, exercises = [], False
    for cell in notebook.cells:
        if "solution" in tags(cell):
            continue
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            cell.metadata.pop("execution", None)
        elif cell.cell_type == "markdown":
            exercises = exercises or EXERCISES in f"\n{cell.source}\n"
            if exercises:  # what is folded before them belongs to the lesson
                cell.source = FOLDED.sub("\n\n", cell.source).strip("\n")
        if cell.source.strip():
            kept.append(cell)
    notebook.cells = kept
    return notebook


def pages_behind(root: Path, wanted: set[str]) -> Files:
    """The pages of book/ with these names, and those that they link to in turn."""
    found: Files = {}
    while wanted:
        name = wanted.pop()
        try:
            text = (root / "book" / name).read_text("utf-8")
        except OSError:
            raise BookError(f"a notebook links to {name}, and book/ has no such page") from None
        found[PurePosixPath("book", name)] = readable(text).encode()
        known = {path.name for path in found}
        wanted |= {PurePosixPath(link).name for link in LINK.findall(text)} - known
    if any(b"references.bib" in page for page in found.values()):
        bibliography = (root / "book/references.bib").read_bytes()
        found[PurePosixPath("book/references.bib")] = bibliography
    return found


def readable(page: str) -> str:
    """A page without what only Sphinx understands."""
    page = FENCE.sub("The entries are in [references.bib](references.bib).", page)
    return re.sub(r"\{cite\}`([^`]+)`", r"[\1]", page)


def write(folder: Path, files: Mapping[PurePosixPath, bytes]) -> None:
    """Put `files` into `folder`, whole or not at all. BookError where that would take others away.

    OSError where the disk does not allow it; then the folder is as it was.
    """
    check_replaceable(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".student-", dir=folder.parent) as name:
        new = Path(name, "new")
        for place, content in files.items():
            (new / place).parent.mkdir(parents=True, exist_ok=True)
            (new / place).write_bytes(content)
        mark = {str(place): sha256(content) for place, content in files.items()}
        (new / MARK).write_text(json.dumps(mark, indent=1, sort_keys=True), encoding="utf-8")
        put_in_place(new, folder)


def check_replaceable(folder: Path) -> None:
    """Raise BookError unless `folder` is absent, or made here and unchanged since."""
    if not folder.exists():
        return
    another = "give another one: --output FOLDER"
    try:
        made = dict(json.loads((folder / MARK).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        raise BookError(f"{folder} was not made by this program; {another}") from None
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    there = {name: path for name, path in there.items() if path.is_file() and is_work(name)}
    changed = [name for name, path in there.items() if made.get(name) != sha256(path.read_bytes())]
    if changed:
        raise BookError(f"{folder} holds work of somebody's ({min(changed)} changed); {another}")


def is_work(name: str) -> bool:
    """Whether a file can be somebody's: not our mark, and no copy that JupyterLab keeps."""
    return name != MARK and ".ipynb_checkpoints" not in PurePosixPath(name).parts


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, make the edition, and return the exit status."""
    parser = OneLineParser(prog="python book/student.py", description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help=f"the folder to make ({OUTPUT})")
    parser.add_argument("--root", type=Path, default=ROOT, help="the folder of the course")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    folder = Path(os.path.realpath(options.output or root / OUTPUT))  # also of a link to itself
    return endings.run(lambda: make(root, folder))


def make(root: Path, folder: Path) -> None:
    """Write the edition of the course at `root` into `folder`, and say so."""
    files = edition(root)
    write(folder, files)
    lessons = sum(place.suffix == ".ipynb" for place in files)
    print(f"{lessons} notebooks without solutions in {folder}")


if __name__ == "__main__":
    sys.exit(main())
