"""The quiz in a browser: choose, read why, see a score; by the keyboard, and without a script."""

from contextlib import closing

import pytest
from tests.book.conftest import ROOT

import quiz

PAGE = "book/quiz.html"
QUESTIONS = [one for questions in quiz.read_quiz(ROOT).values() for one in questions]


@pytest.fixture(scope="module")
def opened(open_quietly):
    with open_quietly(PAGE, 360) as page:
        yield page


@pytest.fixture
def page(opened):
    """The page as it is when it is opened."""
    opened.reload()
    return opened


def right(question: quiz.Question) -> int:
    return [one.right for one in question.answers].index(True)


def bare(text: str) -> str:
    """A text without its few signs of Markdown."""
    return text.replace("`", "").replace("*", "")


def test_each_choice_is_explained_with_its_own_words(page):
    for number, one in enumerate(QUESTIONS):
        box = page.locator("fieldset.quiz").nth(number)
        assert box.locator("legend").inner_text() == f"{number + 1}. {bare(one.question)}"
        for answer, radio in zip(one.answers, box.locator("input").all(), strict=True):
            radio.check()
            verdict = "Right. " if answer.right else "Not right. "
            assert box.locator(".verdict").inner_text() == verdict + bare(answer.why)


def test_nothing_is_told_before_a_choice(page):
    assert page.locator("fieldset.quiz details:visible, .shown-in:visible").count() == 0
    assert page.locator(".verdict:visible").count() == 0
    assert "wrong." not in page.inner_text("fieldset.quiz >> nth=0")


def test_the_score_counts_first_choices_and_is_gone_with_the_page(page):
    score = page.locator(".quiz-score output")
    assert score.inner_text() == "Nothing answered yet."
    for number, one in enumerate(QUESTIONS):
        radios = page.locator("fieldset.quiz").nth(number).locator("input")
        first = right(one) if number % 2 else (right(one) + 1) % 3
        radios.nth(first).check()
        radios.nth(right(one)).check()
    assert score.inner_text() == "All answered; right at the first choice: 10."
    page.reload()
    assert score.inner_text() == "Nothing answered yet."
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]")[2] == ""
    kept = page.evaluate("Object.keys(localStorage).filter((key) => /quiz/.test(key))")
    assert kept == []


def test_it_can_be_started_again(page):
    page.locator("fieldset.quiz input").first.check()
    assert page.inner_text(".quiz-score output").startswith("1 of 20 answered")
    page.locator(".quiz-score button").click()
    assert page.inner_text(".quiz-score output") == "Nothing answered yet."
    assert page.locator("fieldset.quiz :checked").count() == 0
    assert page.locator(".verdict:visible").count() == 0


def test_who_comes_back_to_the_page_finds_no_answer_ticked_that_nothing_is_said_of(open_quietly):
    with open_quietly(PAGE, 360) as page:
        page.locator("fieldset.quiz input").first.check()
        page.goto(page.url.replace("quiz", "on_a_phone"))
        page.go_back()
        ticked = page.locator("fieldset.quiz input:checked").count()
        said = page.locator(".verdict:visible").count()
        assert ticked == said  # none, or what the browser has kept as it was


def test_it_works_by_the_keyboard_alone(page):
    page.locator("fieldset.quiz input").first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    box = page.locator("fieldset.quiz").first
    assert box.locator("input").nth(1).is_checked()
    assert box.locator(".verdict").get_attribute("aria-live") == "polite"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    assert box.locator(".reasons").is_visible()


def test_an_answer_is_large_enough_to_be_tapped(page):
    heights = page.locator("fieldset.quiz label").evaluate_all(
        "(all) => all.map((label) => label.getBoundingClientRect().height)"
    )
    assert min(heights) >= 44


def test_without_javascript_each_question_has_its_answers_and_a_folded_explanation(browser, site):
    context = browser.new_context(java_script_enabled=False)
    with closing(context), closing(context.new_page()) as plain:
        plain.goto(f"{site}/{PAGE}")
        assert plain.locator("fieldset.quiz").count() == len(QUESTIONS)
        assert plain.locator("fieldset.quiz > details > summary:visible").count() == len(QUESTIONS)
        assert plain.locator("fieldset.quiz input").count() == 0
        assert plain.locator(".reasons:visible").count() == 0
        plain.locator("fieldset.quiz summary").first.click()
        assert "B is right." in plain.locator(".reasons").first.inner_text()


def test_other_pages_do_not_load_the_quiz():
    assert "quiz.js" in (ROOT / "_build/html" / PAGE).read_text("utf-8")
    assert "quiz.js" not in (ROOT / "_build/html/book/glossary.html").read_text("utf-8")
