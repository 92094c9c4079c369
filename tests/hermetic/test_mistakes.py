"""The page of mistakes is in step with chapters, claims and tests; what is not there is refused."""

import re
from pathlib import Path

import pytest
import yaml
from mdit_py_plugins.anchors.index import slugify
from myst_parser.mdit_to_docutils.base import default_slugify
from nbformat.v4 import new_code_cell, new_markdown_cell
from tests.little_book import make_book, write_notebook

import mistakes
from pages import BookError

ROOT = Path(__file__).parents[2]
ENTRY = {
    "mistake": "Soup is served before it is cooked.",
    "right": "Cook it\nfirst.",
    "explained": ["two#adding-up", "two", "figures"],
    "shown": ["two-sum", "two-again"],
    "tests": ["tests/test_soup.py::test_it_is_cooked"],
}


@pytest.fixture
def book(tmp_path):
    """A little book with one mistake, which two cells of one section show."""
    root = make_book(tmp_path / "book")
    write_notebook(
        root / "notebooks/two.ipynb",
        new_markdown_cell("# Two\n\n## Adding up"),
        new_code_cell("assert 1 + 1 == 2", metadata={"claims": ["two-sum"]}),
        new_code_cell("assert 2 + 2 == 4", metadata={"claims": ["two-again"]}),
    )
    (root / "tests").mkdir()
    (root / "tests/test_soup.py").write_text("def test_it_is_cooked(): ...\ndef cook(): ...\n")
    (root / "book/figures.md").write_text("# Figures\n")
    write_entry(root)
    return root


def write_entry(root: Path, **changes) -> None:
    text = yaml.safe_dump({"Soup": [ENTRY | changes]}, sort_keys=False)
    (root / mistakes.MISTAKES).write_text(text)


def test_the_page_in_git_is_what_the_list_gives():
    assert (ROOT / mistakes.PAGE).read_text("utf-8") == mistakes.page(ROOT)


def test_every_part_of_the_course_has_its_mistakes():
    found = mistakes.read_mistakes(ROOT)
    assert list(found) == ["The loop", "Batches", "Numbers", "The book and the notebooks"]
    assert sum(len(entries) for entries in found.values()) >= 29


def test_no_mistake_is_listed_twice_in_other_words_for_the_same_remedy():
    entries = [one for group in mistakes.read_mistakes(ROOT).values() for one in group]
    assert len({one.right for one in entries}) == len(entries)


def test_chapters_explain_their_mistakes_and_show_them():
    """Mistakes with the book itself are told on its pages, and no cell can show them."""
    for group, entries in mistakes.read_mistakes(ROOT).items():
        for one in entries:
            in_a_section = [target for target in one.explained if "#" in target]
            assert in_a_section, one.mistake
            assert one.shown or group == "The book and the notebooks", one.mistake


def test_anchors_are_made_as_the_book_makes_them():
    for group in mistakes.read_mistakes(ROOT).values():
        for one in group:
            assert slugify(one.mistake) == default_slugify(one.mistake)


def test_a_mistake_is_found_by_its_heading_and_links_to_what_explains_and_shows_it(book):
    written = mistakes.page(book)
    section = written[written.index("## Soup") :]
    assert section == (
        "## Soup\n\n- [Soup is served before it is cooked](#soup-is-served-before-it-is-cooked)\n\n"
        "### Soup is served before it is cooked\n\nCook it first.\n\n"
        "Explained in [Two, “Adding up”](../notebooks/two.ipynb#adding-up); "
        "[Two](../notebooks/two.ipynb); [Figures](figures.md). "
        "Shown in [Two, cells 1, 2](../notebooks/two.ipynb#adding-up).\n\n"
        '<p class="tests">Tests: <code>tests/test_soup.py::test_it_is_cooked</code></p>\n'
    )


def test_a_mistake_that_no_cell_can_show_names_none(book):
    write_entry(book, shown=[])
    assert "Shown" not in mistakes.page(book)


CHANGES = {
    "a heading that is not there": ({"explained": ["two#soup"]}, "two has no heading #soup"),
    "a chapter that is not there": ({"explained": ["three"]}, "no chapter or page three"),
    "a page elsewhere": ({"explained": ["../_toc"]}, "no chapter or page \\.\\./_toc"),
    "an unknown claim": ({"shown": ["three-sum"]}, "no cell shows three-sum"),
    "an unknown test": ({"tests": ["tests/test_soup.py::test_x"]}, "no test .*::test_x"),
    "a helper": ({"tests": ["tests/test_soup.py::cook"]}, "no test .*::cook"),
    "a file without a test": ({"tests": ["tests/test_soup.py"]}, "no test tests/test_soup.py"),
    "a file that is not there": ({"tests": ["tests/test_tea.py::test_x"]}, "no test .*tea"),
    "no tests": ({"tests": []}, "tests of 'Soup.* must be one or more different names"),
    "no explanation": ({"explained": []}, "explained of 'Soup.* must be one or more"),
    "a claim twice": ({"shown": ["two-sum"] * 2}, "shown of 'Soup.* different names"),
    "a name for a list": ({"shown": "two-sum"}, "must be a list of names, not 'two-sum'"),
    "a number": ({"shown": [1]}, "must be a list of names, not \\[1\\]"),
    "no words": ({"right": " "}, "right of 'Soup.* must be a sentence"),
    "no mistake": ({"mistake": None}, "mistake of None must be a sentence"),
    "a field too many": ({"wrong": "x"}, "must have mistake, right, .* not .*wrong"),
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_an_entry_that_names_what_is_not_there_is_an_error_of_one_line(
    book, name, capsys, monkeypatch
):
    changes, message = CHANGES[name]
    write_entry(book, **changes)
    monkeypatch.setattr(mistakes, "ROOT", book)
    before = (book / mistakes.PAGE).read_bytes()
    assert mistakes.main([]) == 1
    assert re.fullmatch(f"error: book/mistakes.yml: .*{message}.*\n", capsys.readouterr().err)
    assert (book / mistakes.PAGE).read_bytes() == before


LISTS = {
    "nothing": ("", "the file must be a table"),
    "a group of nothing": ("Soup:", "Soup must be a list of mistakes, not None"),
    "an empty group": ("Soup: []", "Soup must be a list of mistakes"),
    "a mistake that is a word": ("Soup: [x]", "a mistake in Soup must be a table"),
    "a group twice": ("Soup: []\nSoup: []", "Soup stands twice"),
    "no YAML": ("Soup: [", "expected the node content"),
}


@pytest.mark.parametrize("name", list(LISTS))
def test_a_list_that_is_none_is_an_error(book, name):
    text, message = LISTS[name]
    (book / mistakes.MISTAKES).write_text(text)
    with pytest.raises(BookError, match=f"^book/mistakes.yml: .*{message}"):
        mistakes.page(book)


def test_two_mistakes_under_one_heading_are_an_error(book):
    other = {**ENTRY, "mistake": "Soup is served before it is cooked"}
    (book / mistakes.MISTAKES).write_text(yaml.safe_dump({"Soup": [ENTRY], "Bread": [other]}))
    with pytest.raises(
        BookError, match="two mistakes would be #soup-is-served-before-it-is-cooked"
    ):
        mistakes.page(book)
