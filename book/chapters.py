"""What a page that is written from a list and the notebooks needs: both read, and refused if unfit.

Two such pages stand in git, of claims and of mistakes, so that a plain Jupyter Book build finds
them; a test holds each against what its module would write.
"""

import sys
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import yaml
from markdown_it import MarkdownIt
from mdit_py_plugins.anchors.index import slugify

from pages import BookError

# What PyYAML raises beside its own errors: for a day or a tag that does not fit, for a hundred "[".
NO_YAML = (ValueError, TypeError, AttributeError, RecursionError)


class OneOfEach(yaml.SafeLoader):
    """Takes a key that stands twice for an error; YAML would silently take the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """The mapping, if its keys differ."""
        keys = [key.value for key, _ in node.value]
        if twice := [key for key in keys if keys.count(key) > 1]:
            raise yaml.constructor.ConstructorError(None, None, f"{twice[0]} stands twice")
        return super().construct_mapping(node, deep)


def read_list(root: Path, path: Path) -> Any:
    """The content of a list in YAML. BookError for what is none."""
    try:
        return yaml.load((root / path).read_text("utf-8"), OneOfEach)
    except (OSError, yaml.YAMLError, *NO_YAML) as error:
        raise BookError(f"{path}: {' '.join(str(error).split())}") from None


def table(content: Any, path: Path, where: str) -> dict[str, Any]:
    """What was read, if it is a table whose keys are strings."""
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise BookError(f"{path}: {where} must be a table with names, not {content!r:.60}")
    return content


def words(text: Any, path: Path, key: str) -> str:
    """A text on one line, if it is one."""
    if not isinstance(text, str) or not text.split():
        raise BookError(f"{path}: {key} must be a sentence, not {text!r:.60}")
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


def headings(cell: Any) -> list[str]:
    """The headings in a cell of prose, in order."""
    return list(_headings(cell.source)) if cell.cell_type == "markdown" else []


@cache
def _headings(markdown: str) -> tuple[str, ...]:
    pairs = pairwise(MarkdownIt().parse(markdown))  # a heading opens; its text is the next token
    return tuple(text.content for opening, text in pairs if opening.type == "heading_open")


def check_links(name: str, sections: list[list[str]]) -> list[str]:
    """The anchors of a notebook's sections. BookError where a link could mean two."""
    anchors = [slugify(heading) for begun in sections for heading in begun]
    if twice := [anchor for anchor in anchors if anchors.count(anchor) > 1]:
        raise BookError(f"{name} has two headings for #{twice[0]}")
    return anchors


def title(books: dict[str, Any], chapter: str, path: Path) -> str:
    """The title of a chapter that a list, ``path``, names."""
    if chapter not in books:
        raise BookError(f"{path}: there is no notebook {chapter}")
    first = [heading for cell in books[chapter].cells[:1] for heading in headings(cell)]
    if not first:
        raise BookError(f"{chapter}: the first cell must be the title")
    return first[0]


def write(root: Path, path: Path, page: Callable[[Path], str]) -> int:
    """Write the page, or say what is wrong, and return the exit status."""
    try:
        (root / path).write_text(page(root), encoding="utf-8")
    except BookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
