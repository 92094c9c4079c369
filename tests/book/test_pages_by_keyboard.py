"""A reader with a keyboard alone: everything is reached, the focus is seen, nothing is a trap."""

from contextlib import closing

import pytest
from tests.book.conftest import HTML, NAMES

# One page of each kind; each one's furniture is the same.
KINDS = [NAMES[0], next(name for name in NAMES if "08" in name), NAMES[-1], "search"]

FOCUSED = """() => {
  let one = document.activeElement;
  if (!one || one === document.body) return null;
  while (one.shadowRoot?.activeElement) one = one.shadowRoot.activeElement;  // in the player
  const box = one.getBoundingClientRect(), style = getComputedStyle(one);
  const ring = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
  const caret = one.matches('input, textarea, select');
  return {
    what: one.outerHTML.slice(0, 120),
    number: one.dataset.number,
    seen: one.checkVisibility({opacityProperty: true, visibilityProperty: true})
      && box.width > 1 && box.height > 1
      && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    marked: ring || caret || style.boxShadow.includes('3px') || style.boxShadow.includes('rgb'),
  };
}"""
# Numbers what a key should reach: scripts may still put in more elements, at any place.
REACHABLE = """() => [...document.querySelectorAll('a[href], button, input, select, summary')]
  .filter((e) => e.checkVisibility({visibilityProperty: true}) && !e.disabled && e.tabIndex >= 0
    && !e.closest('dialog:not([open])') && !e.matches('[type=radio]:not(:checked)'))
  .map((e, n) => e.dataset.number = String(n))"""


def keyboard(browser, scheme="light", width=1280):
    return browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )


def walk(page) -> list[dict]:
    """What has the focus, key after key, until it leaves the page."""
    found = []
    page.evaluate("document.activeElement.blur()")
    while len(found) < 1000:
        page.keyboard.press("Tab")
        one = page.evaluate(FOCUSED)
        if one is None:
            return found
        found.append(one)
    raise AssertionError(f"the focus never leaves the page; at last: {found[-1]['what']}")


@pytest.mark.parametrize(("name", "scheme"), list(zip(KINDS, ("light", "dark") * 2, strict=True)))
def test_tab_reaches_everything_shows_where_it_is_and_gets_out(browser, name, scheme):
    with closing(keyboard(browser, scheme)) as context:
        page = context.new_page()
        page.goto((HTML / f"{name}.html").as_uri())
        reachable = set(page.evaluate(REACHABLE))
        found = walk(page)
    assert "Skip to main content" in found[0]["what"]
    assert [one["what"] for one in found if not one["seen"]] == []
    assert [one["what"] for one in found if not one["marked"]] == []
    assert len(reachable - {one["number"] for one in found}) == 0


def test_the_skip_link_leads_past_the_contents(browser):
    with closing(keyboard(browser)) as context:
        page = context.new_page()
        page.goto((HTML / f"{KINDS[1]}.html").as_uri())
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('#main-content') !== null")


def test_the_contents_of_a_narrow_screen_open_lead_on_and_close_by_keys(browser):
    with closing(keyboard(browser, "dark", 360)) as context:
        page = context.new_page()
        page.goto((HTML / f"{KINDS[1]}.html").as_uri())
        toggle = page.locator(".primary-toggle:visible")
        toggle.focus()
        page.keyboard.press("Enter")
        entry = page.locator("dialog[open] .bd-links a").nth(2)
        assert entry.is_visible()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('dialog[open]') !== null")
        page.keyboard.press("Escape")
        assert page.locator("dialog[open]").count() == 0
        page.wait_for_function("document.activeElement.matches('.primary-toggle')")
        page.keyboard.press("Enter")
        entry.focus()
        page.keyboard.press("Enter")
        page.wait_for_function("!document.querySelector('dialog[open]')")
        assert not page.url.endswith(f"{KINDS[1]}.html")


def test_menus_and_solutions_open_and_close_by_keys(browser):
    with closing(keyboard(browser)) as context:
        page = context.new_page()
        page.goto((HTML / f"{KINDS[1]}.html").as_uri())
        page.locator(".dropdown-download-buttons button").first.focus()
        page.keyboard.press("Enter")
        assert page.locator(".dropdown-menu.show a").first.is_visible()
        page.keyboard.press("Escape")
        assert page.locator(".dropdown-menu.show").count() == 0
        folded = page.locator(".bd-article details:not(generation-player details)").first
        summary = folded.locator("> summary")
        summary.focus()
        page.keyboard.press("Enter")
        assert folded.get_attribute("open") is not None
