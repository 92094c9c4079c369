"""The book opened from a folder: no server, no network, no request that leaves the folder."""

import re
from contextlib import closing
from functools import cache

import pytest
from bs4 import BeautifulSoup
from tests.book.conftest import BESIDE, HTML, NAMES, hearing

OUTSIDE = re.compile(r"""(?:url\(|@import\s*)["']?\s*(?:https?:)?//""")
PAPER = """() => {
  const shown = (name) => [...document.querySelectorAll(name)].filter((e) => e.checkVisibility());
  const article = document.querySelector('.bd-article');
  const colours = (element) => getComputedStyle(element);
  return {
    navigation: shown('nav, button, .bd-sidebar, .prev-next-footer, .skip-link, .headerlink')
      .map((element) => element.outerHTML.slice(0, 100)),
    share: article.getBoundingClientRect().width / document.documentElement.clientWidth,
    ink: colours(article).color,
    code: [...new Set([...document.querySelectorAll('.highlight span')]
      .map((span) => colours(span).color))],
    paper: colours(document.body).backgroundColor,
    title: document.querySelector('.bd-article h1').checkVisibility(),
    cut: [...article.querySelectorAll('pre')].filter((code) => code.checkVisibility())
      .filter((code) => code.scrollWidth > code.clientWidth + 1)
      .map((code) => code.textContent.slice(0, 80)),
  };
}"""


@pytest.fixture(scope="module")
def reader(browser):
    """Somebody who reads in the dark."""
    return browser.new_context(viewport={"width": 794, "height": 1123}, color_scheme="dark")


@pytest.fixture(scope="module")
def opened(reader):
    """Return a function that opens a page once, then prints it, and says what happened."""
    page = reader.new_page()

    @cache
    def go(name: str) -> dict:
        asked, complaints = [], []
        with hearing(
            page,
            request=lambda request: asked.append(request.url),
            console=lambda said: complaints.append((said.type, said.text)),
            pageerror=lambda error: complaints.append(("error", str(error))),
        ):
            page.emulate_media(media="screen")
            page.goto((HTML / f"{name}.html").as_uri(), wait_until="load")
            page.emulate_media(media="print")
            paper = page.evaluate(PAPER) if name in NAMES else None
        bad = [text for kind, text in complaints if kind in ("error", "warning")]
        return {"asked": asked, "complaints": bad, "paper": paper}

    return go


@pytest.mark.parametrize("name", [*NAMES, *BESIDE, "index"])
def test_page_asks_for_files_of_the_folder_alone(name, opened):
    seen = opened(name)
    inside = (HTML.as_uri() + "/", "data:")
    assert [address for address in seen["asked"] if not address.startswith(inside)] == []
    assert len(seen["asked"]) >= 1
    assert seen["complaints"] == []


def test_no_page_and_no_style_loads_anything_from_elsewhere():
    for path in HTML.rglob("*.html"):
        page = BeautifulSoup(path.read_text("utf-8"), "html.parser")
        loaded = page.select("link[href]:not([rel=canonical]), [src], [data]:not(div)")
        for element in loaded:
            address = element.get("href") or element.get("src") or element.get("data")
            assert not re.match(r"(https?:)?//", address), element
    for path in HTML.rglob("*.css"):
        assert not OUTSIDE.search(path.read_text("utf-8")), path


@pytest.mark.parametrize("name", NAMES)
def test_page_prints_the_lesson_alone_dark_on_white_and_whole(name, opened):
    paper = opened(name)["paper"]
    assert paper["navigation"] == []
    assert paper["share"] > 0.9
    assert paper["ink"] == "rgb(0, 0, 0)"
    assert paper["paper"] == "rgb(255, 255, 255)"
    assert set(paper["code"]) <= {"rgb(0, 0, 0)"}
    assert paper["title"]
    assert paper["cut"] == []


def results(page, query: str) -> list[str]:
    """The titles that a search finds."""
    page.goto((HTML / "search.html").as_uri())
    page.locator("form.bd-search input").last.fill(query)
    page.keyboard.press("Enter")
    page.wait_for_function(
        "document.querySelector('#search-results p')?.textContent.match(/found|matching|did not/)"
    )
    return page.locator("#search-results li a").all_inner_texts()


def test_search_finds_a_chapter_and_answers_a_chinese_query(reader):
    complaints = []
    with closing(reader.new_page()) as page:
        page.on("console", lambda said: said.type == "error" and complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        assert "Tokenizer" in results(page, "tokenizer")
        assert "Batching and padding" in results(page, "午饭吃什么")  # a prompt of that chapter
        assert results(page, "没有这个词吧") == []
    assert complaints == []


def test_search_opens_with_the_keyboard_from_any_page(reader):
    with closing(reader.new_page()) as page:
        page.goto((HTML / f"{NAMES[1]}.html").as_uri())
        page.keyboard.press("Control+k")
        page.keyboard.type("prefill")
        page.keyboard.press("Enter")
        page.wait_for_url("**/search.html?q=prefill")
        page.wait_for_selector("#search-results li a")
        assert "Prefill" in page.locator("#search-results li a").all_inner_texts()
