"""What the book overrides in its theme is there: an upgrade that moves it fails here, by name."""

import re
from pathlib import Path

import pydata_sphinx_theme
import pytest
import sphinx_book_theme
from tests.book.conftest import HTML, ROOT

PYDATA = Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme"
BOOK = Path(sphinx_book_theme.__file__).parent / "theme/sphinx_book_theme"
OWN = ROOT / "book/_templates"


def words(text: str) -> set[str]:
    """The tags, attributes and classes of a template, without comments."""
    return set(re.findall(r"[\w-]{3,}", re.sub(r"\{#.*?#\}", "", text, flags=re.DOTALL)))


@pytest.mark.parametrize("name", ["search-button-field.html", "theme-switcher.html"])
def test_a_copied_template_still_has_the_parts_of_its_original(name):
    original = (PYDATA / "components" / name).read_text("utf-8")
    dropped = {"title", "Light", "Dark", "System", "Settings", "aria-label"}
    assert words(original) - words((OWN / name).read_text("utf-8")) <= dropped


def test_the_layout_has_the_blocks_that_ours_extends():
    layout = (PYDATA / "layout.html").read_text("utf-8")
    assert layout.count('|| "{{ default_mode }}"') == 2
    assert "{%- block css %}" in layout
    assert re.search(
        r'block body_tag %\}\s*<body data-default-mode="\{\{ default_mode \}\}">', layout
    )
    assert 'extends "pydata_sphinx_theme/layout.html"' in (BOOK / "layout.html").read_text("utf-8")


def test_a_page_says_light_and_lets_a_script_find_out_more():
    html = (HTML / "book/index.html").read_text("utf-8")
    assert re.search(r'<html[^>]* data-theme="light"', html)
    assert html.count('|| "auto"') == 2
    assert '|| "light"' not in html
    assert '<body data-default-mode="auto">' in html


def test_every_template_of_ours_is_for_a_page_or_a_part_of_the_theme():
    theirs = {path.name for folder in (PYDATA, BOOK) for path in folder.rglob("*.html")}
    assert {path.name for path in OWN.iterdir()} - theirs == {"404.html"}
