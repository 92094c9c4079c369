"""The page of claims is in step with the notebooks, and a claim without a cell is refused."""

from pathlib import Path

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell
from tests.little_book import make_book, write_notebook

import claims
from pages import BookError, documents

ROOT = Path(__file__).parents[2]
CHAPTERS = [path.stem for path in documents(ROOT) if path.suffix == ".ipynb"]


@pytest.fixture
def book(tmp_path):
    """A little book in which one cell shows one claim."""
    root = make_book(tmp_path / "book")
    write_notebook(
        root / "notebooks/two.ipynb",
        new_markdown_cell("# Two\n\n## Adding up"),
        new_code_cell("1"),
        new_code_cell("assert 1 + 1 == 2", metadata={"claims": ["two-sum"]}),
    )
    write_claims(root, {"two": {"two-sum": "One and one\nmake two."}})
    return root


def write_claims(root: Path, table: dict) -> None:
    (root / claims.CLAIMS).write_text(yaml.safe_dump(table))


def test_the_page_in_git_is_what_the_notebooks_give():
    assert (ROOT / claims.PAGE).read_text("utf-8") == claims.page(ROOT)


def test_every_chapter_has_claims_and_stands_in_its_order():
    assert list(claims.read_claims(ROOT)) == CHAPTERS


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_claim_is_shown_by_a_cell_that_asserts_or_puts_something_out(chapter):
    cells = nbformat.read(ROOT / f"notebooks/{chapter}.ipynb", 4).cells
    carrying = [cell for cell in cells if "claims" in cell.metadata]
    assert [cell.source for cell in carrying if cell.cell_type != "code"] == []
    assert [cell.source for cell in carrying if not shows_something(cell.source)] == []


def shows_something(source: str) -> bool:
    """Whether a cell asserts, prints, or ends in a value."""
    last = source.strip().splitlines()[-1]
    value = last.startswith((" ", ")", "]")) or " = " not in last.split("(")[0]
    return "assert " in source or "print(" in source or value


def test_no_claim_is_made_twice():
    texts = [text for chapter in claims.read_claims(ROOT).values() for text in chapter.values()]
    keys = [key for chapter in claims.read_claims(ROOT).values() for key in chapter]
    assert len(texts) == len(set(texts))
    assert len(keys) == len(set(keys))


def test_a_line_names_section_and_cell_and_links_to_them(book):
    wanted = "- One and one make two. ([Adding up](../notebooks/two.ipynb#adding-up), cell 2)"
    assert wanted in claims.page(book)
    assert "## [Two](../notebooks/two.ipynb)" in claims.page(book)


def test_a_claim_without_a_cell_is_an_error_that_names_it(book):
    write_claims(book, {"two": {"two-sum": "a", "two-product": "b"}})
    with pytest.raises(BookError, match="no cell shows two-product"):
        claims.page(book)


def test_a_cell_that_carries_an_unknown_key_is_an_error_that_names_it(book):
    write_claims(book, {"two": {}})
    with pytest.raises(BookError, match="does not have: two-sum"):
        claims.page(book)
