"""What the HTML of each page holds: words for pictures, captions, links that lead somewhere."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup
from tests.book.conftest import HTML, NAMES


@cache
def soup(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text("utf-8"), "html.parser")


@pytest.fixture(params=NAMES)
def path(request) -> Path:
    return HTML / f"{request.param}.html"


@pytest.fixture
def article(path):
    """The part of the page that is the lesson, without the theme around it."""
    return soup(path).select_one("article.bd-article")


def test_page_has_a_title_of_its_own(path):
    title = soup(path).title.get_text()
    heading = soup(path).select_one("article h1").get_text().rstrip("#")
    assert title.startswith(heading)
    assert soup(path).html["lang"] == "en"


def test_no_two_pages_share_a_title():
    titles = [soup(HTML / f"{name}.html").title.get_text() for name in NAMES]
    assert len(titles) == len(set(titles))


def test_every_picture_has_words_and_they_are_no_file_name(article):
    for image in article.find_all("img"):
        words = image.get("alt", "")
        assert len(words.split()) >= 3, image.get("src")
        assert not re.search(r"\.(png|svg|jpe?g)$|^\.?\.?/", words)


def test_every_figure_has_a_caption_that_leads_to_it_alone(article):
    for image in article.select(".cell_output img"):
        figure = image.find_parent("figure")
        assert figure is not None, image.get("alt")
        assert figure.figcaption.select_one(".caption-text").get_text(strip=True)
        assert figure.figcaption.select_one("a.enlarge")["href"] == image["src"]


def test_page_shows_no_markup_that_was_meant_for_the_builder(article):
    copy = BeautifulSoup(str(article), "html.parser")
    for code in copy.select("pre, code, script, style, math, .cell_output"):
        code.extract()  # what a cell puts out is its own
    text = copy.get_text("\n")
    assert re.findall(r":::|```|\{[a-z-]+\}|\$\$|\\[a-z]{3,}", text) == []


def test_page_holds_no_widget_and_no_error_that_is_not_meant(article):
    assert article.select(".widget-subarea, script[type*=jupyter]") == []
    raised = article.select(".cell:not(.tag_raises-exception) .traceback")
    assert [error.get_text() for error in raised] == []


def test_page_takes_scripts_styles_and_pictures_from_the_book_alone(path):
    parts = soup(path).select("script[src], img[src], link[rel=stylesheet], link[rel=icon]")
    addresses = [part.get("src") or part.get("href") for part in parts]
    assert [address for address in addresses if urlsplit(address).netloc] == []


def test_every_link_within_the_book_leads_somewhere(path):
    for link in soup(path).select("a[href]"):
        address = urlsplit(link["href"])
        if address.scheme or address.netloc:
            continue
        target = (path.parent / unquote(address.path)).resolve() if address.path else path
        assert target.is_file(), link["href"]
        if address.fragment and target.suffix == ".html":
            assert soup(target).find(id=unquote(address.fragment)) is not None, link["href"]


def test_the_way_in_leads_to_the_first_page():
    refresh = soup(HTML / "index.html").select_one("meta[http-equiv=Refresh]")
    assert (HTML / refresh["content"].split("url=")[1].strip()).is_file()
