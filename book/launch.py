"""Writes launch copies: the notebooks, each with a first cell that brings in the course.

For places that have Python and torch but not the course, such as Colab. Knows what has to be
installed there, and that torch stays the one that is there. Nothing lies beside a copy, so its
links lead to the site, or else to the repository. The publisher pushes the folder as a branch of
its own; the pages' links lead to it.
"""

import posixpath
import re
import shutil
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell
from packaging.requirements import Requirement

from addresses import EDITED_BRANCH, Addresses

LAUNCH = Path("_build/launch")
LINK = re.compile(r"\]\((?P<path>[\w./-]+)\.(?P<kind>ipynb|md)(?P<anchor>#[\w-]+)?\)")
ABOUT = """\
## First: bring in the course

The next cell installs the course from its [repository]({repository}), unless it is there already,
and fetches a model, about 1 GB. This takes some minutes once, most of it for the model. The torch
that is here stays as it is; so does every other package that is recent enough. If this session had
loaded an older version of one that was renewed, the cell says so: then restart the session and run
the notebook from the top.
"""
INSTALL = """\
import importlib.util
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

from packaging.requirements import Requirement

COURSE = "inside-generate @ git+{repository}.git"
PINS = {pins}  # what the course accepts: what is installed where that is not here


def is_here(wanted):
    try:
        return Requirement(wanted).specifier.contains(version(Requirement(wanted).name))
    except PackageNotFoundError:
        return False


def python(*arguments):
    subprocess.run([sys.executable, "-m", *arguments], check=True)


if importlib.util.find_spec("inside_generate") is None:
    torch = f"torch=={{version('torch')}}"  # asked for as it is, so that pip leaves it alone
    missing = [pin for wanted, pin in PINS.items() if not is_here(wanted)]
    loaded = {{name.partition(".")[0] for name in sys.modules}}
    python("pip", "install", "-q", torch, *missing)
    python("pip", "install", "-q", "--no-deps", COURSE)
    importlib.invalidate_caches()
    renewed = [pin for pin in missing if pin.partition("==")[0].replace("-", "_") in loaded]
    if renewed:
        print("Restart the session, then run from the top. Renewed:", *renewed)
python("inside_generate", "fetch")"""
README = """\
# Launch copies

The notebooks of [Inside generate()]({repository}), each with a first cell that brings in the
course. Made by `make book REPO_URL={repository}`; edit the notebooks there, not here.
"""


def pins(root: Path) -> dict[str, str]:
    """What the package asks for, with the version that the book is made with; torch left out."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {Requirement(line).name: line for line in project["dependencies"]}
    lines = (root / "requirements.txt").read_text("utf-8").splitlines()
    exact = {line.split("==")[0]: line for line in lines if re.match(r"[\w-]+==", line)}
    return {line: exact[name] for name, line in wanted.items() if name != "torch"}


def with_full_links(text: str, notebook: Path, addresses: Addresses) -> str:
    """Markdown of `notebook` whose links to pages of the book hold wherever it is opened."""

    def full(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(notebook.parent.as_posix(), link["path"]))
        anchor = link["anchor"] or ""
        if addresses.site:
            return f"]({addresses.site}{target}.html{anchor})"
        if link["kind"] == "ipynb":
            return f"]({addresses.colab(target + '.ipynb')})"  # it heeds no anchors
        return f"]({addresses.repository}/blob/{EDITED_BRANCH}/{target}.md{anchor})"

    return LINK.sub(full, text)


def launch_copy(notebook: Any, path: Path, addresses: Addresses, pinned: dict[str, str]) -> Any:
    """The notebook with the two cells in front. Without outputs: it has not run there yet."""
    lines = "".join(f'    "{wanted}": "{pin}",\n' for wanted, pin in pinned.items())
    source = INSTALL.format(repository=addresses.repository, pins=f"{{\n{lines}}}")
    about = new_markdown_cell(ABOUT.format(repository=addresses.repository), id="about-the-course")
    install = new_code_cell(source, id="bring-in-the-course")
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = with_full_links(cell.source, path, addresses)
    title, *rest = notebook.cells
    notebook.cells = [title, about, install, *rest]
    return notebook


def write(root: Path, notebooks: Iterable[Path], addresses: Addresses) -> int:
    """Write the copies of `notebooks` afresh, or remove them where there is no repository.

    Returns how many there are. The folder appears whole or not at all.
    """
    folder, partial = root / LAUNCH, (root / LAUNCH).with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    count = 0
    for path in notebooks if addresses.repository else ():
        copy = launch_copy(nbformat.read(root / path, 4), path, addresses, pins(root))
        nbformat.validate(copy)
        (partial / path).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(copy, partial / path)
        count += 1
    shutil.rmtree(folder, ignore_errors=True)
    if count:
        readme = README.format(repository=addresses.repository)
        (partial / "README.md").write_text(readme, encoding="utf-8")
        partial.replace(folder)
    return count
