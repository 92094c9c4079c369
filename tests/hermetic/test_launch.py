"""Launch copies: what their first cell does on a machine that has torch but not the course."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import addresses
import launch
from addresses import Addresses

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/owner/name"
ADDRESSES = Addresses(REPOSITORY)


@pytest.fixture
def book(tmp_path):
    """A folder with the course's own lists of packages and one notebook."""
    for name in ("pyproject.toml", "requirements.txt"):
        (tmp_path / name).write_text((ROOT / name).read_text("utf-8"), "utf-8")
    (tmp_path / "notebooks").mkdir()
    cells = [new_markdown_cell("# One"), new_code_cell("1 + 1")]
    nbformat.write(new_notebook(cells=cells), tmp_path / "notebooks/one.ipynb")
    return tmp_path


def written(book) -> nbformat.NotebookNode:
    assert launch.write(book, [Path("notebooks/one.ipynb")], ADDRESSES) == 1
    return nbformat.read(book / launch.LAUNCH / "notebooks/one.ipynb", 4)


def test_a_copy_has_the_title_then_what_will_happen_then_the_cell_that_does_it(book):
    copy = written(book)
    nbformat.validate(copy)
    title, about, install, *rest = copy.cells
    assert title.source == "# One"
    assert REPOSITORY in about.source
    assert "torch" in about.source
    assert [cell.source for cell in rest] == ["1 + 1"]
    compile(install.source, "cell", "exec")


SITE = Addresses(REPOSITORY, site="https://example.org/course/")
GITHUB, COLAB = f"{REPOSITORY}/blob/main", f"{addresses.COLAB}/owner/name/blob/launch"


@pytest.mark.parametrize(
    ("link", "where", "full"),
    [
        ("../book/glossary.md#kv-cache", SITE, f"{SITE.site}book/glossary.html#kv-cache"),
        ("08_decode.ipynb#one-step", SITE, f"{SITE.site}notebooks/08_decode.html#one-step"),
        ("../book/glossary.md#kv-cache", ADDRESSES, f"{GITHUB}/book/glossary.md#kv-cache"),
        ("08_decode.ipynb#one-step", ADDRESSES, f"{COLAB}/notebooks/08_decode.ipynb"),
        ("#exercises", SITE, "#exercises"),
        ("https://example.org/a.md", SITE, "https://example.org/a.md"),
    ],
)
def test_links_of_a_copy_lead_to_the_site_or_to_the_repository(link, where, full):
    text = f"See [the page]({link}), and 2 (of 3)."
    changed = launch.with_full_links(text, Path("notebooks/one.ipynb"), where)
    assert changed == f"See [the page]({full}), and 2 (of 3)."


def test_no_link_of_a_real_copy_is_left_without_an_address(tmp_path):
    for name in ("pyproject.toml", "requirements.txt", "notebooks"):
        (tmp_path / name).symlink_to(ROOT / name)
    notebooks = [Path("notebooks") / path.name for path in (ROOT / "notebooks").glob("*.ipynb")]
    launch.write(tmp_path, notebooks, SITE)
    for path in notebooks:
        cells = nbformat.read(tmp_path / launch.LAUNCH / path, 4).cells
        prose = "".join(cell.source for cell in cells if cell.cell_type == "markdown")
        links = re.findall(r"\]\(([^)\s]+)\)", prose)
        assert [link for link in links if not link.startswith(("https://", "#"))] == []
        assert len(links) > 5


def test_with_no_repository_there_are_no_copies_and_old_ones_go(book):
    written(book)
    assert launch.write(book, [Path("notebooks/one.ipynb")], Addresses()) == 0
    assert not (book / launch.LAUNCH).exists()


def test_the_pins_are_the_packages_that_the_course_imports_less_torch(book):
    pinned = launch.pins(book)
    assert "transformers==5.24.0" in pinned.values()
    assert not [pin for pin in pinned.values() if pin.startswith("torch")]
    assert len(pinned) >= 10


def commands(book, monkeypatch, present: bool, versions=None) -> list[list[str]]:
    """What the cell would run, on a machine with or without the course."""
    ran = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: ran.append(command[2:]))
    spec = importlib.util.find_spec("nbformat") if present else None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    if versions is not None:
        monkeypatch.setattr("importlib.metadata.version", versions)
    exec(written(book).cells[2].source, {})
    return ran


def test_where_the_course_is_there_nothing_is_installed(book, monkeypatch):
    assert commands(book, monkeypatch, present=True) == [["inside_generate", "fetch"]]


def test_torch_stays_and_what_is_recent_enough_too(book, monkeypatch):
    here = {"torch": "2.99.0+cu999", "numpy": "2.4.0", "transformers": "4.1"}
    *pips, fetch = commands(book, monkeypatch, False, lambda name: here.get(name, "0.0"))
    asked, course = pips
    assert asked[:4] == ["pip", "install", "-q", "torch==2.99.0+cu999"]
    assert [part for part in asked if part.startswith("torch")] == ["torch==2.99.0+cu999"]
    assert "transformers==5.24.0" in asked
    assert not [part for part in asked if part.startswith("numpy")]
    assert course[:4] == ["pip", "install", "-q", "--no-deps"]
    assert course[4] == f"inside-generate @ git+{REPOSITORY}.git"
    assert fetch == ["inside_generate", "fetch"]


def test_a_package_that_was_loaded_and_renewed_asks_for_a_restart(book, monkeypatch, capsys):
    assert "numpy" in sys.modules
    commands(book, monkeypatch, False, lambda name: "9.9" if name == "torch" else "0.0")
    said = capsys.readouterr().out
    assert said.startswith("Restart the session, then run from the top.")
    assert "numpy==" in said
