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

import nbformat
import yaml
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


def read_claims(root: Path) -> dict[str, dict[str, str]]:
    """The claims by chapter (the notebook's name), each by its key."""
    found: dict[str, dict[str, str]] = {}
    for chapter, claims in yaml.safe_load((root / CLAIMS).read_text("utf-8")).items():
        found[chapter] = {key: " ".join(text.split()) for key, text in claims.items()}
    return found


def places(root: Path) -> dict[str, list[Place]]:
    """Every key that a cell carries, with the cells that carry it, in order."""
    found: dict[str, list[Place]] = {}
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        section, number = "", 0
        for cell in nbformat.read(path, 4).cells:
            section = [section, *headings(cell)][-1]
            number += cell.cell_type == "code"
            for key in cell.metadata.get("claims", []):
                found.setdefault(key, []).append(Place(path.stem, section, number))
    return found


def headings(cell: Any) -> list[str]:
    """The headings in a cell of prose, in order."""
    lines = cell.source.splitlines() if cell.cell_type == "markdown" else []
    return [line.lstrip("#").strip() for line in lines if line.startswith("#")]


def title(root: Path, chapter: str) -> str:
    """The title of a chapter."""
    return headings(nbformat.read(root / f"notebooks/{chapter}.ipynb", 4).cells[0])[0]


def page(root: Path) -> str:
    """The whole page. BookError where claims and cells do not belong to each other."""
    claims, shown = read_claims(root), places(root)
    known = {key for chapter in claims.values() for key in chapter}
    if unshown := sorted(known - shown.keys()):
        raise BookError(f"{CLAIMS}: no cell shows {', '.join(unshown)}")
    if unknown := sorted(shown.keys() - known):
        raise BookError(f"cells carry keys that {CLAIMS} does not have: {', '.join(unknown)}")
    parts = [OPENING]
    for chapter, texts in claims.items():
        parts.append(f"## [{title(root, chapter)}](../notebooks/{chapter}.ipynb)\n")
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
