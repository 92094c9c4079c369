"""Writes the page "Mistakes, and where they are explained": `python book/mistakes.py`.

`mistakes.yml` has groups, and in each a list of mistakes: what one does or sees (`mistake`), what
is right (`right`), where that is explained (`explained`: `chapter#section`, or a chapter alone),
the claims whose cells show it (`shown`) and the tests that hold the course to it (`tests`). All
that an entry names must be there.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from mdit_py_plugins.anchors.index import slugify
from nbformat.v4 import new_markdown_cell

from chapters import check_links, headings, notebooks, read_list, table, title, words, write
from claims import Place, places
from inside_generate.arguments import OneLineParser
from pages import BookError

ROOT = Path(__file__).resolve().parent.parent
MISTAKES = Path("book/mistakes.yml")
PAGE = Path("book/mistakes.md")
FIELDS = ("mistake", "right", "explained", "shown", "tests")
OPENING = """\
# Mistakes, and where they are explained

Each of these has been made by people who wrote a loop, measured one, or published a notebook. Most
of them raise no error. Look for what you see or do in the lists; the link leads to what is right
and to the chapters that explain and show it. Cells are cells of code, by the number that JupyterLab
shows beside them once a notebook has run from the top. The last line of each names the tests that
keep the course from making the mistake itself.
"""


@dataclass(frozen=True)
class Mistake:
    """One entry of the list."""

    mistake: str
    right: str
    explained: list[str]
    shown: list[str]
    tests: list[str]


def read_mistakes(root: Path) -> dict[str, list[Mistake]]:
    """The mistakes by group. BookError for other content."""
    found = {}
    for group, entries in table(read_list(root, MISTAKES), MISTAKES, "the file").items():
        if not isinstance(entries, list) or not entries:
            raise BookError(f"{MISTAKES}: {group} must be a list of mistakes, not {entries!r:.60}")
        found[group] = [entry(one, group) for one in entries]
    names = [slugify(one.mistake) for entries in found.values() for one in entries]
    if twice := [name for name in names if names.count(name) > 1]:
        raise BookError(f"{MISTAKES}: two mistakes would be #{twice[0]}")
    return found


def entry(content: Any, group: str) -> Mistake:
    """One mistake, if it has all its fields and no others."""
    fields = table(content, MISTAKES, f"a mistake in {group}")
    name = repr(fields.get("mistake"))[:60]
    if set(fields) != set(FIELDS):
        raise BookError(
            f"{MISTAKES}: {name} must have {', '.join(FIELDS)}, not {', '.join(fields)}"
        )
    lists = {field: names(fields[field], f"{field} of {name}") for field in FIELDS[2:]}
    mistake, right = (words(fields[field], MISTAKES, f"{field} of {name}") for field in FIELDS[:2])
    return Mistake(mistake.rstrip("."), right, **lists)


def names(content: Any, where: str) -> list[str]:
    """A list of different strings; only ``shown`` may be empty."""
    if not isinstance(content, list) or not all(isinstance(one, str) for one in content):
        raise BookError(f"{MISTAKES}: {where} must be a list of names, not {content!r:.60}")
    if len(set(content)) < len(content) or not (content or where.startswith("shown")):
        raise BookError(f"{MISTAKES}: {where} must be one or more different names")
    return content


def page(root: Path) -> str:
    """The whole page. BookError where an entry names what is not there."""
    books = notebooks(root)
    shown = places(books)
    parts = [OPENING]
    for group, entries in read_mistakes(root).items():
        listed = [f"- [{one.mistake}](#{slugify(one.mistake)})" for one in entries]
        parts += [f"## {group}\n", "\n".join(listed) + "\n"]
        parts += [section(root, one, books, shown) for one in entries]
    return "\n".join(parts)


def section(root: Path, one: Mistake, books: dict[str, Any], shown: dict[str, list[Place]]) -> str:
    """One mistake under a heading of its own, so that it can be found and linked to."""
    links = "; ".join(explanation(target, root, books) for target in one.explained)
    cells = {place for key in one.shown for place in cells_of(key, shown)}
    seen = f" Shown in {'; '.join(cell_links(cells, books))}." if cells else ""
    for test in one.tests:
        check_test(root, test)
    tests = " ".join(f"<code>{test}</code>" for test in one.tests)
    return (
        f"### {one.mistake}\n\n{one.right}\n\nExplained in {links}.{seen}\n\n"
        f'<p class="tests">Tests: {tests}</p>\n'
    )


def explanation(target: str, root: Path, books: dict[str, Any]) -> str:
    """A link to a section, ``chapter#anchor``, or to a chapter; pages of the book count as such."""
    name, _, anchor = target.partition("#")
    path, found = Path(f"../notebooks/{name}.ipynb"), []
    if name in books:
        found = [heading for cell in books[name].cells for heading in headings(cell)]
    for page in (root / PAGE.parent).glob("*.md"):
        if page.stem == name:
            path, found = Path(page.name), headings(new_markdown_cell(page.read_text("utf-8")))
    if not found:
        raise BookError(f"{MISTAKES}: there is no chapter or page {name}")
    anchors = check_links(name, [found])
    if anchor and anchor not in anchors:
        raise BookError(f"{MISTAKES}: {name} has no heading #{anchor}")
    if not anchor:
        return f"[{found[0]}]({path})"
    return f"[{found[0]}, “{found[anchors.index(anchor)]}”]({path}#{anchor})"


def cells_of(key: str, shown: dict[str, list[Place]]) -> list[Place]:
    """The cells that carry the key of a claim."""
    if key not in shown:
        raise BookError(f"{MISTAKES}: no cell shows {key}")
    return shown[key]


def cell_links(cells: Iterable[Place], books: dict[str, Any]) -> Iterator[str]:
    """A link to each section with the numbers of its cells, in the book's order."""
    ordered = sorted(cells, key=lambda place: (place.notebook, place.number))
    for (name, section), group in groupby(ordered, lambda place: (place.notebook, place.section)):
        numbers = [str(place.number) for place in group]
        word = "cell" if len(numbers) == 1 else "cells"
        link = f"../notebooks/{name}.ipynb#{slugify(section)}"
        yield f"[{title(books, name, MISTAKES)}, {word} {', '.join(numbers)}]({link})"


def check_test(root: Path, test: str) -> None:
    """BookError unless the test, ``path::name``, is defined there."""
    path, _, name = test.partition("::")
    if name not in tests_in(root / path):
        raise BookError(f"{MISTAKES}: there is no test {test}")


@cache
def tests_in(path: Path) -> frozenset[str]:
    """The names of the tests in a file; none where there is no such file."""
    if path.suffix != ".py" or not path.is_file():
        return frozenset()
    body = ast.parse(path.read_text("utf-8")).body
    functions = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    return frozenset(name for name in functions if name.startswith("test_"))


def main(arguments: list[str] | None = None) -> int:
    """Write the page, and return the exit status."""
    about = (__doc__ or "").splitlines()[0]
    OneLineParser(prog="python book/mistakes.py", description=about).parse_args(arguments)
    return write(ROOT, PAGE, page)


if __name__ == "__main__":
    sys.exit(main())
