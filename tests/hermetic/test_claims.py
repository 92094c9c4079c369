"""The page of claims is in step with the notebooks, and a claim without a cell is refused."""

import re
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


TABLES = {
    "nothing": ("", "the file must be a table"),
    "a list": ("- two", "the file must be a table with names, not \\['two'\\]"),
    "a chapter of nothing": ("two:", "two must be a table with names, not None"),
    "a chapter that is a list": ("two: [two-sum]", "two must be a table"),
    "a claim of nothing": ("two: {two-sum: }", "two-sum must be a sentence, not None"),
    "an empty claim": ("two: {two-sum: ' '}", "two-sum must be a sentence, not ' '"),
    "a claim that is a number": ("two: {two-sum: 5}", "two-sum must be a sentence, not 5"),
    "a key that is a number": ("two: {1: a, two-sum: b}", "two must be a table with names"),
    "no YAML": ("two: [", "expected the node content"),
    "two documents": ("two: {two-sum: a}\n---\n{}", "expected a single document"),
    "a day that is none": ("two: {two-sum: 2026-13-45}", "month must be in 1..12"),
    "a tag that does not fit": ("two: !!map x", "not enough values"),
    "too deep": ("[" * 3000, "maximum recursion depth"),
    "bytes that are no text": (b"two: \xff", "can't decode byte 0xff"),
    "a key twice": ("two: {two-sum: a, two-sum: b}", "two-sum stands twice"),
    "a chapter twice": ("two: {two-sum: a}\ntwo: {}", "two stands twice"),
    "a key in two chapters": ("two: {two-sum: a}\none: {two-sum: b}", "in two chapters: two-sum"),
    "a chapter without a notebook": ("two: {two-sum: a}\nthree: {}", "no notebook three"),
    "a chapter elsewhere": ("../notebooks/two: {two-sum: a}", "no notebook \\.\\./notebooks/two"),
}


@pytest.mark.parametrize("name", list(TABLES))
def test_a_table_that_is_none_is_an_error_of_one_line_and_status_1(book, name, capsys, monkeypatch):
    written, message = TABLES[name]
    (book / claims.CLAIMS).write_bytes(written if isinstance(written, bytes) else written.encode())
    monkeypatch.setattr(claims, "ROOT", book)
    before = (book / claims.PAGE).read_bytes()
    assert claims.main([]) == 1
    said = capsys.readouterr().err
    assert re.fullmatch(f"error: book/claims.yml: .*{message}.*\n", said)
    assert (book / claims.PAGE).read_bytes() == before


def test_a_table_that_is_missing_is_an_error(book):
    (book / claims.CLAIMS).unlink()
    with pytest.raises(BookError, match="No such file"):
        claims.page(book)


PROSE = new_markdown_cell("# Two")
CARRIES = {"claims": ["two-sum"]}
CELLS = {
    "keys that are none": ([PROSE, new_code_cell(metadata={"claims": None})], "not None"),
    "a key for a list": ([PROSE, new_code_cell(metadata={"claims": "two-sum"})], "not 'two-sum'"),
    "a number": ([PROSE, new_code_cell(metadata={"claims": [1]})], "not \\[1\\]"),
    "a key twice": ([PROSE, new_code_cell(metadata={"claims": ["a", "a"]})], "same key twice: a"),
    "prose": ([new_markdown_cell("# Two", metadata=CARRIES)], "prose shows nothing"),
    "no title": ([new_code_cell(metadata=CARRIES)], "two: the first cell must be the title"),
    "equal headings": ([PROSE, new_markdown_cell("# Two")], "two has two headings for #two"),
}


@pytest.mark.parametrize("name", list(CELLS))
def test_cells_that_cannot_be_linked_are_an_error(book, name):
    cells, message = CELLS[name]
    write_notebook(book / "notebooks/two.ipynb", *cells)
    with pytest.raises(BookError, match=message):
        claims.page(book)


@pytest.mark.parametrize("content", ["{", "", "[]", "{}"])
def test_a_notebook_that_is_none_is_an_error(book, content):
    (book / "notebooks/two.ipynb").write_text(content)
    with pytest.raises(BookError, match=r"^two\.ipynb is no notebook: [^\n]+$"):
        claims.page(book)


def test_only_headings_are_headings(book):
    prose = "# Two #\n\n```\n# a comment\n```\n\n#hashtag"
    cells = new_markdown_cell(prose), new_code_cell("assert True", metadata=CARRIES)
    write_notebook(book / "notebooks/two.ipynb", *cells)
    assert "([Two](../notebooks/two.ipynb#two), cell 1)" in claims.page(book)
