"""A warning of any kind fails the build, again and again, and leaves the last good pages alone."""

import json
from pathlib import Path

import pytest
from nbformat import read, write
from nbformat.v4 import new_output
from tests.little_book import RUN, make_book

import pages

NOTEBOOKS = [Path("notebooks/one.ipynb"), Path("notebooks/two.ipynb")]
GOOD = "# A little book\n"
BAD = """\
# A little book

[gone](gone.md), {cite}`nobody2030`

$$\\nosuchmacro{x}$$

### Too deep
"""


def run_without_kernel(book, output=None) -> None:
    """Put notebooks where executed ones lie; the second one with an output, if wanted."""
    for name in NOTEBOOKS:
        notebook = read(book / name, 4)
        if output and name == NOTEBOOKS[1]:
            notebook.cells[1].outputs = [output]
        (book / pages.EXECUTED / name).parent.mkdir(parents=True, exist_ok=True)
        write(notebook, book / pages.EXECUTED / name)
        record = book / pages.EXECUTED / name.with_suffix(".run.json")
        record.write_text(json.dumps(RUN), "utf-8")


def make_pages(book) -> str:
    """Make the pages; return what was wrong, or nothing."""
    pages.publish(book, NOTEBOOKS)
    try:
        pages.build(book, [pages.page_of(book, path) for path in pages.documents(book)])
    except pages.BookError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A little book with good pages on disk."""
    book = make_book(tmp_path_factory.mktemp("building") / "book")
    run_without_kernel(book)
    assert make_pages(book) == ""
    return book


@pytest.fixture(scope="module")
def complaints(book):
    """What two builds in a row say of a book with a mistake of each kind."""
    run_without_kernel(book, new_output("stream", name="stderr", text="mind the gap"))
    (book / "book/index.md").write_text(BAD)
    return make_pages(book), make_pages(book)


@pytest.mark.parametrize(
    "said",
    [
        "gone.md",
        "nobody2030",
        "this formula cannot be shown",
        "Non-consecutive header level",
        "stderr was found in the cell outputs",
    ],
    ids=["link", "reference", "formula", "heading", "warning of a cell"],
)
def test_a_mistake_fails_the_build_and_the_next_one_too(complaints, said):
    first, again = complaints
    assert said in first
    assert said in again


def test_the_last_good_pages_outlive_a_build_that_failed(book, complaints):
    html = (book / "_build/html/book/index.html").read_text("utf-8")
    assert "A little book" in html
    assert "Too deep" not in html


def test_a_document_that_gets_no_page_fails_the_build(book):
    (book / "book/index.md").write_text(GOOD)
    run_without_kernel(book)
    pages.publish(book, NOTEBOOKS)
    with pytest.raises(pages.BookError, match=r"no page was made for notebooks/three\.html"):
        pages.build(book, [pages.page_of(book, pages.Path("notebooks/three.ipynb"))])


def test_where_the_new_pages_cannot_be_put_in_place_the_last_ones_stay(book, monkeypatch):
    index = (book / pages.HTML / "index.html").read_text("utf-8")
    real = Path.replace

    def fails(self, target):
        if self.name == "html":
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="No space"):
        make_pages(book)
    assert (book / pages.HTML / "index.html").read_text("utf-8") == index
