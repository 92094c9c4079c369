"""What axe-core cannot see: order of headings, words of links, languages, formulas by keyboard."""

import re
from functools import cache
from itertools import pairwise

import pytest
from bs4 import BeautifulSoup
from tests.book.conftest import HTML, NAMES

IDEOGRAPHS = re.compile("[\u3400-\u9fff]")
EMPTY_WORDS = {"here", "this", "link", "click here", "more", "read more", "this page", "page"}


@cache
def soup(name: str) -> BeautifulSoup:
    return BeautifulSoup((HTML / f"{name}.html").read_text("utf-8"), "html.parser")


@pytest.fixture(params=NAMES)
def article(request):
    return soup(request.param).select_one("article.bd-article")


def test_headings_go_down_one_step_at_a_time(article):
    levels = [int(heading.name[1]) for heading in article.find_all(re.compile("^h[1-6]$"))]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert [(a, b) for a, b in pairwise(levels) if b > a + 1] == []


def test_every_link_says_where_it_leads(article):
    for link in article.select("a[href]:not(.headerlink)"):
        words = link.get_text(" ", strip=True) or link.get("aria-label", "")
        assert words, link
        assert words.lower() not in EMPTY_WORDS, link


def test_every_table_has_header_cells(article):
    filled = [table for table in article.find_all("table") if table.find("td")]  # or by a script
    assert [str(table)[:100] for table in filled if not table.find("th")] == []


def test_every_chinese_passage_is_marked_as_such(article):
    for text in article.find_all(string=IDEOGRAPHS):
        if text.find_parent(["script", "style", "svg", "textarea", "select"]) is None:
            assert text.find_parent(lang=re.compile("^(zh|ja)")) is not None, text


def test_every_formula_that_may_scroll_can_be_reached_with_keys(article):
    for box in article.select(".formula"):
        assert box["tabindex"] == "0"
        assert box["aria-label"]
