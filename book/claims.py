"""Writes the page "What the book shows, and where": `python book/claims.py`.

Claims stand in `claims.yml`, chapter by chapter, in the book's own words. A cell that shows one
carries its key in the cell's metadata (`"claims": ["the-key"]`). The page lists each claim with the
section and the cell. The page is kept in git, so that a plain Jupyter Book build finds it; a test
holds it against what this module would write.
"""

import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import yaml
from markdown_it import MarkdownIt
from mdit_py_plugins.anchors.index import slugify

from pages import BookError

ROOT = Path(__file__).resolve().parent.parent
CLAIMS = Path("book/claims.yml")
PAGE = Path("book/what_the_book_shows.md")
OPENING = """\
# What the book shows, and where

Each line is a claim of this book and the cell that shows it: by asserting it, or by putting it
out for you to read. The number is the cell's own, as a notebook counts when it runs from the top.
A test keeps this page in step with the notebooks and fails for a claim without a cell.
"""


@dataclass(frozen=True)
class Place:
    """A cell that shows something."""

    notebook: str  # the file's name without its ending
    section: str  # the heading above the cell
    number: int  # among the code cells, from 1


class OneOfEach(yaml.SafeLoader):
    """Takes a key that stands twice for an error; YAML would silently take the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """The mapping, if its keys differ."""
        keys = [key.value for key, _ in node.value]
        if twice := [key for key in keys if keys.count(key) > 1]:
            raise yaml.constructor.ConstructorError(None, None, f"{twice[0]} stands twice")
        return super().construct_mapping(node, deep)


def read_claims(root: Path) -> dict[str, dict[str, str]]:
    """The claims by chapter (the notebook's name), each by its key. BookError for other content."""
    try:
        content = yaml.load((root / CLAIMS).read_text("utf-8"), OneOfEach)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BookError(f"{CLAIMS}: {' '.join(str(error).split())}") from None
    found: dict[str, dict[str, str]] = {}
    for chapter, claims in table(content, "the file").items():
        found[chapter] = {key: words(key, text) for key, text in table(claims, chapter).items()}
    keys = [key for claims in found.values() for key in claims]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise BookError(f"{CLAIMS}: in two chapters: {', '.join(twice)}")
    return found


def table(content: Any, where: str) -> dict[str, Any]:
    """What was read, if it is a table whose keys are strings."""
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise BookError(f"{CLAIMS}: {where} must be a table with names, not {content!r:.60}")
    return content


def words(key: str, text: Any) -> str:
    """The text of a claim on one line."""
    if not isinstance(text, str) or not text.split():
        raise BookError(f"{CLAIMS}: {key} must be a sentence, not {text!r:.60}")
    return " ".join(text.split())


def notebooks(root: Path) -> dict[str, Any]:
    """The notebooks by name, in order."""
    found = {}
    for path in sorted((root / "notebooks").glob("[!.]*.ipynb")):
        try:
            found[path.stem] = nbformat.read(path, 4)
        except (OSError, ValueError, AttributeError, nbformat.ValidationError) as error:
            raise BookError(f"{path.name} is no notebook: {' '.join(str(error).split())}") from None
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


def headings(cell: Any) -> list[str]:
    """The headings in a cell of prose, in order."""
    tokens = MarkdownIt().parse(cell.source) if cell.cell_type == "markdown" else []
    pairs = pairwise(tokens)  # a heading opens, and its text is the next token
    return [text.content for opening, text in pairs if opening.type == "heading_open"]


def check_links(name: str, sections: list[list[str]]) -> None:
    """BookError where a link to a section could mean two."""
    anchors = [slugify(heading) for begun in sections for heading in begun]
    if twice := [anchor for anchor in anchors if anchors.count(anchor) > 1]:
        raise BookError(f"{name} has two headings for #{twice[0]}")


def title(books: dict[str, Any], chapter: str) -> str:
    """The title of a chapter."""
    if chapter not in books:
        raise BookError(f"{CLAIMS}: there is no notebook {chapter}")
    first = [heading for cell in books[chapter].cells[:1] for heading in headings(cell)]
    if not first:
        raise BookError(f"{chapter}: the first cell must be the title")
    return first[0]


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
        parts.append(f"## [{title(books, chapter)}](../notebooks/{chapter}.ipynb)\n")
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


def main() -> int:
    """Write the page, and return the exit status."""
    try:
        (ROOT / PAGE).write_text(page(ROOT), encoding="utf-8")
    except BookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
