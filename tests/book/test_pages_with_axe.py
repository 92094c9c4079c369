"""Each page as axe-core sees it, by the rules of WCAG 2.1 AA: wide and light, narrow and dark.

Those two looks meet both widths and both schemes; all four would take twice as long.
"""

from contextlib import closing
from pathlib import Path

import axe_playwright_python
import pytest
from tests.book.conftest import BESIDE, NAMES

LOOKS = [("wide", "light"), ("narrow", "dark")]
# What axe-core has against a page, with all unfolded. `preload` would fetch the styles again.
# Code is laid down without the elements that colour it: thousands, which take axe-core minutes in
# all; test_pages_in_a_browser.py checks their colours.
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text("utf-8")
AXE_RUN = """async () => {
  for (const folded of document.querySelectorAll('details')) folded.open = true;
  for (const code of document.querySelectorAll('.highlight pre')) {
    code.textContent = code.textContent;
  }
  const found = await axe.run(document, {
    runOnly: {type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']},
    rules: {'label-content-name-mismatch': {enabled: true}},
    resultTypes: ['violations'],
    preload: false,
  });
  return found.violations.flatMap(
    (rule) => rule.nodes.map((node) => `${rule.id}: ${node.target} ${node.html.slice(0, 200)}`));
}"""


def violations(page) -> list[str]:
    """What axe-core has against the page, a line for each place."""
    page.evaluate(f"{AXE}; null")
    return page.evaluate(AXE_RUN)


@pytest.mark.parametrize("name", [*NAMES, *BESIDE])
@pytest.mark.parametrize("look", LOOKS, ids=" and ".join)
def test_axe_core_finds_no_violation(name, look, screens, site):
    page = screens[look]
    page.goto(f"{site}/{name}.html", wait_until="load")
    page.wait_for_function("document.documentElement.dataset.theme !== 'auto'")
    assert violations(page) == []


def test_axe_core_would_find_one(browser, site):
    with closing(browser.new_page()) as page:
        page.goto(f"{site}/404.html")
        page.evaluate("document.body.append(new Image())")
        assert [line.split(":")[0] for line in violations(page)] == ["image-alt"]
