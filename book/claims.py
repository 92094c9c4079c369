"""Writes the page "What the book shows, and where": `python book/claims.py`.

Claims stand in `claims.yml`, chapter by chapter, in the book's own words. A cell that shows one
carries its key in the cell's metadata (`"claims": ["the-key"]`). The page lists each claim with the
section and the cell. The page is kept in git, so that a plain Jupyter Book build finds it; a test
holds it against what this module would write.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdit_py_plugins.anchors.index import slugify

from chapters import check_links, headings, notebooks, read_list, table, title, words, write
from inside_generate.arguments import OneLineParser
from pages import BookError

ROOT = Path(__file__).resolve().parent.parent
CLAIMS = Path("book/claims.yml")
PAGE = Path("book/what_the_book_shows.md")
OPENING = """\
# What the book shows, and where

Each line is a claim of this book and the cell that shows it: by asserting it, or by putting it
out for you to read. The link leads to the section. The number counts the chapter's cells of code;
JupyterLab shows it beside a cell once the notebook has run from the top, a page does not. A test
keeps this page in step with the notebooks and fails for a claim without a cell.
"""


@dataclass(frozen=True)
class Place:
    """A cell that shows something."""

    notebook: str  # the file's name without its ending
    section: str  # the heading above the cell
    number: int  # among the code cells, from 1


def read_claims(root: Path) -> dict[str, dict[str, str]]:
    """The claims by chapter (the notebook's name), each by its key. BookError for other content."""
    found: dict[str, dict[str, str]] = {}
    for chapter, claims in table(read_list(root, CLAIMS), CLAIMS, "the file").items():
        texts = table(claims, CLAIMS, chapter)
        found[chapter] = {key: words(text, CLAIMS, key) for key, text in texts.items()}
    keys = [key for claims in found.values() for key in claims]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise BookError(f"{CLAIMS}: in two chapters: {', '.join(twice)}")
    return found


def places(books: dict[str, Any]) -> dict[str, list[Place]]:
    """Every key that a cell carries, with the cells that carry it, in order."""
    found: dict[str, list[Place]] = {}
    for name, notebook in books.items():
        sections = [headings(cell) for cell in notebook.cells]
        check_links(name, sections)
        section, number = "", 0
        for cell, begun in zip(notebook.cells, sections, strict=True):
            section = [section, *begun][-1]
            number += cell.cell_type == "code"
            for key in keys_of(cell, f"{name}, section {section!r}"):
                found.setdefault(key, []).append(Place(name, section, number))
    return found


def keys_of(cell: Any, where: str) -> list[str]:
    """The keys that a cell carries."""
    keys = cell.metadata.get("claims", [])
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise BookError(f"{where}: a cell's claims must be a list of keys, not {keys!r:.60}")
    if len(set(keys)) < len(keys):
        raise BookError(f"{where}: a cell carries the same key twice: {', '.join(keys)}")
    if keys and cell.cell_type != "code":
        raise BookError(f"{where}: prose shows nothing, code does: {', '.join(keys)}")
    return keys


def page(root: Path) -> str:
    """The whole page. BookError where claims and cells do not belong to each other."""
    claims, books = read_claims(root), notebooks(root)
    shown = places(books)
    known = {key for chapter in claims.values() for key in chapter}
    if unshown := sorted(known - shown.keys()):
        raise BookError(f"{CLAIMS}: no cell shows {', '.join(unshown)}")
    if unknown := sorted(shown.keys() - known):
        raise BookError(f"cells carry keys that {CLAIMS} does not have: {', '.join(unknown)}")
    parts = [OPENING]
    for chapter, texts in claims.items():
        parts.append(f"## [{title(books, chapter, CLAIMS)}](../notebooks/{chapter}.ipynb)\n")
        parts.append("\n".join(line(text, shown[key]) for key, text in texts.items()) + "\n")
    return "\n".join(parts)


def line(text: str, cells: list[Place]) -> str:
    """One claim with the places that show it."""
    links = (
        f"[{cell.section}](../notebooks/{cell.notebook}.ipynb#{slugify(cell.section)}), "
        f"cell {cell.number}"
        for cell in cells
    )
    return f"- {text} ({'; '.join(links)})"


def main(arguments: list[str] | None = None) -> int:
    """Write the page, and return the exit status."""
    about = (__doc__ or "").splitlines()[0]
    OneLineParser(prog="python book/claims.py", description=about).parse_args(arguments)
    return write(ROOT, PAGE, page)


if __name__ == "__main__":
    sys.exit(main())
