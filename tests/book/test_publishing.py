"""Pages for a known address: links that launch, a card, a page for what is not found."""

import functools
import threading
from contextlib import closing
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup
from tests.book.conftest import HTML, NAMES, Quiet
from tests.book.test_building import NOTEBOOKS, run_without_kernel
from tests.little_book import make_book

import addresses
import pages

WHERE = addresses.read(
    "https://github.com/some-owner/Some.Course", "https://example.org/a/course", "https://hub.test"
)


def made(root: Path, where: addresses.Addresses) -> Path:
    """The little book's pages, made for these addresses."""
    pages.publish(root, NOTEBOOKS, functools.partial(addresses.settings, addresses=where))
    pages.build(root, [pages.page_of(root, path) for path in pages.documents(root)])
    return root / pages.HTML


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    """The same little book twice: for no address, and for all of them."""
    found = []
    for name, where in (("plain", addresses.Addresses()), ("known", WHERE)):
        root = make_book(tmp_path_factory.mktemp(name) / "book")
        run_without_kernel(root)
        found.append(made(root, where))
    return found


@functools.cache
def soup(html: Path, name: str) -> BeautifulSoup:
    return BeautifulSoup((html / f"{name}.html").read_text("utf-8"), "html.parser")


def test_with_no_address_there_is_no_button_that_leads_nowhere(books):
    plain, _ = books
    for name in ("book/index", "notebooks/one"):
        page = soup(plain, name)
        assert page.select(".dropdown-launch-buttons, .dropdown-source-buttons") == []
        assert [link["href"] for link in page.select("a[href^=http]")] == []
        assert page.select("link[rel=canonical], meta[property='og:image']") == []
        assert "github" not in str(page).lower()


def test_with_addresses_each_notebook_can_be_launched_and_the_prose_be_edited(books):
    _, known = books
    page = soup(known, "notebooks/one")
    launched = [link["href"] for link in page.select(".dropdown-launch-buttons a")]
    course = "some-owner/Some.Course"
    assert launched == [
        f"https://colab.research.google.com/github/{course}/blob/launch/notebooks/one.ipynb",
        "https://hub.test/hub/user-redirect/lab/tree/inside-generate/notebooks/one.ipynb",
    ]
    index = soup(known, "book/index")
    assert index.select(".dropdown-launch-buttons") == []
    sources = [link["href"] for link in index.select(".dropdown-source-buttons a")]
    assert f"https://github.com/{course}" in sources
    assert f"https://github.com/{course}/edit/main/book/index.md" in sources


def test_the_addresses_change_nothing_in_the_article(books):
    articles = [str(soup(html, "notebooks/one").select_one("article")) for html in books]
    assert articles[0] == articles[1]
    assert "Code of a solution" in articles[0]


def test_the_card_has_a_full_address_and_is_there(books):
    _, known = books
    head = soup(known, "notebooks/one").head
    card = {tag["property"]: tag["content"] for tag in head.select("meta[property^='og:']")}
    assert card["og:image"] == "https://example.org/a/course/_static/card.png"
    assert (known / "_static/card.png").is_file()
    assert card["og:url"] == "https://example.org/a/course/notebooks/one.html"
    assert card["og:title"] == "One"
    assert head.select_one("link[rel=canonical]")["href"] == card["og:url"]


def test_the_page_for_what_is_not_found_starts_from_the_sites_path(books):
    _, known = books
    links = [link["href"] for link in soup(known, "404").select("a")]
    assert links[0] == "/a/course/index.html"
    assert soup(known, "404").select("script, link[rel=stylesheet], img") == []
    assert soup(books[0], "404").select("link[rel=stylesheet], img, script[src]") == []


@pytest.mark.parametrize("name", NAMES)
def test_every_page_describes_itself(name):
    head = soup(HTML, name).head
    about = head.select_one("meta[name=description]")["content"]
    assert 20 <= len(about) <= 165
    assert head.select_one("meta[property='og:description']")["content"] == about
    assert head.select_one("meta[property='og:title']")["content"]
    assert head.select_one("link[rel=icon]")


def test_no_two_pages_describe_themselves_alike():
    said = [soup(HTML, name).head.select_one("meta[name=description]")["content"] for name in NAMES]
    assert len(said) == len(set(said))


def test_the_links_of_the_page_for_what_is_not_found_lead_somewhere():
    for link in soup(HTML, "404").select("a"):
        assert (HTML / urlsplit(link["href"]).path.rpartition("/course/")[2]).is_file()


class Host(Quiet):
    """A host that answers with the book's own page where there is none, as most can be told to."""

    def send_error(self, code, message=None, explain=None):
        if code != 404:
            return super().send_error(code, message, explain)
        body = (HTML / "404.html").read_bytes()
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None


@pytest.mark.parametrize("missing", ["gone.html", "notebooks/gone.html", "book/gone.html"])
def test_a_missing_page_leads_back_to_the_book_from_any_of_its_folders(browser, missing):
    handler = functools.partial(Host, directory=str(HTML))
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        closing(browser.new_page()) as page,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = f"http://127.0.0.1:{server.server_port}/"
        assert page.goto(root + missing).status == 404
        assert page.locator("a").first.evaluate("(link) => link.href") == f"{root}index.html"
        server.shutdown()


def test_the_notebooks_of_the_pages_are_valid():
    for path in (HTML / "_sources").rglob("*.ipynb"):
        nbformat.validate(nbformat.read(path, 4))
