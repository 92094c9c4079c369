"""The course in short on a small screen: every chapter, its answers folded, no script needed."""

from contextlib import closing

import pytest
from tests.book.conftest import ROOT

import phone

PAGE = "book/on_a_phone.html"
CHAPTERS = phone.chapters_in_short(ROOT)


@pytest.fixture(scope="module")
def page(browser, site):
    """The page on a phone, without JavaScript."""
    context = browser.new_context(
        viewport={"width": 360, "height": 740}, java_script_enabled=False, has_touch=True
    )
    with closing(context), closing(context.new_page()) as opened:
        opened.goto(f"{site}/{PAGE}")
        yield opened


def test_every_chapter_has_its_section_with_a_link_to_itself(page):
    for short in CHAPTERS:
        section = page.locator(f"section[id='{short.name}']")
        title = section.locator("h2").inner_text().rstrip("#")
        assert title == short.title.replace("`", "")
        link = section.locator(f"a[href='../notebooks/{short.name}.html']").first
        assert link.inner_text() == f"{short.minutes} in full"


def test_every_question_comes_with_an_answer_that_a_tap_opens(page):
    asked = sum(len(short.questions) for short in CHAPTERS)
    answers = page.locator("article details")
    assert answers.count() == asked
    assert page.locator("article details[open]").count() == 0
    last = page.locator(f"section[id='{CHAPTERS[-1].name}'] details").last
    last.locator("summary").tap()
    assert "With number D / 2" in last.inner_text()


def test_every_summary_is_there_and_can_be_read_without_a_tap(page):
    for short in CHAPTERS:
        points = page.locator(f"section[id='{short.name}'] > ul > li:visible")
        assert points.count() == short.summary.count("\n- ") + 1


def test_the_way_leads_to_the_first_page_the_calculators_and_the_quiz(page):
    for target in ("index.html", "calculators.html", "quiz.html"):
        assert page.locator(f"article ol a[href='{target}']").count() == 1
