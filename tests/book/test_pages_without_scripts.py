"""Each page with scripts switched off: all of the lesson is there, and nothing that is dead."""

import re

import pytest
from tests.book.conftest import HTML, NAMES, SIZES

# What a reader without scripts has before them.
LOOK = """() => {
  const seen = (element) => element.checkVisibility({visibilityProperty: true});
  const article = document.querySelector('.bd-article');
  const folded = (element) => {
    const details = element.closest('details:not([open])');
    return details && !details.querySelector('summary').contains(element);
  };
  const parts = [...article.querySelectorAll('p, pre, img, table, math, summary, li, h1, h2, h3')]
    .filter((part) => !part.matches('summary .expanded'))
    .filter((part) => part.textContent.trim() || part.tagName === 'IMG');
  return {
    hidden: parts.filter((part) => !folded(part) && !seen(part) && !part.closest('[hidden]'))
      .map((part) => part.outerHTML.slice(0, 120)),
    parts: parts.length,
    contents: [...document.querySelectorAll('.bd-sidebar-primary .bd-links a')].filter(seen).length,
    dead: [...document.querySelectorAll('button')].filter(seen)
      .map((button) => button.outerHTML.slice(0, 120)),
    width: document.documentElement.scrollWidth,
    theme: document.documentElement.dataset.theme,
    ink: getComputedStyle(article).color,
    words: article.innerText,
  };
}"""


@pytest.fixture(scope="module")
def plain(browser):
    """Tabs without scripts, one for each size."""
    return {
        size: browser.new_context(
            viewport={"width": width, "height": 900},
            java_script_enabled=False,
            color_scheme="dark",
        ).new_page()
        for size, width in SIZES.items()
    }


@pytest.fixture(params=NAMES)
def seen(request, plain):
    looks = {}
    for size, page in plain.items():
        page.goto((HTML / f"{request.param}.html").as_uri())
        looks[size] = page.evaluate(LOOK)
    return looks


def test_everything_is_there_and_nothing_is_dead(seen):
    for size, look in seen.items():
        assert look["parts"] > 3
        assert look["hidden"] == []
        assert look["dead"] == []
        assert look["contents"] >= len(NAMES)
        assert look["width"] == SIZES[size]
        assert look["theme"] == "light"  # the colours of code hang on it
        assert not re.search(r"(?im)^\s*(loading|please wait)[\s.…]*$", look["words"])


def test_what_is_folded_opens_without_a_script(plain):
    name = next(name for name in NAMES if "08" in name)
    page = plain["wide"]
    page.goto((HTML / f"{name}.html").as_uri())
    for summary in page.locator(".bd-article details > summary").all():
        summary.press("Enter")
    assert page.locator(".bd-article details:not([open])").count() == 0
    assert page.locator(".bd-article details[open] pre").first.is_visible()


def test_the_search_page_says_that_it_needs_a_script(plain):
    page = plain["wide"]
    page.goto((HTML / "search.html").as_uri())
    assert "JavaScript" in page.locator("main").inner_text()
