"""What a teacher prints: the handout on one sheet of A4, the plans on few pages."""

import re
from contextlib import closing

import pytest


@pytest.mark.parametrize("margin", ["10mm", "15mm"])
def test_the_handout_is_one_page_of_a4(browser, site, margin):
    sides = dict.fromkeys(("top", "right", "bottom", "left"), margin)
    with closing(browser.new_page()) as page:
        page.goto(f"{site}/book/teaching/handout.html", wait_until="load")
        pdf = page.pdf(format="A4", margin=sides, print_background=True)
        assert page.locator("#terms p").is_visible()
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1


def test_a_plan_does_not_leave_a_page_all_but_empty(browser, site):
    with closing(browser.new_page()) as page:
        page.goto(f"{site}/book/teaching/plans.html", wait_until="load")
        pdf = page.pdf(format="A4", prefer_css_page_size=True)
        page.emulate_media(media="print")
        long = page.locator("table:has(tr:nth-child(9))").last
        assert long.evaluate("(table) => getComputedStyle(table).breakInside") == "auto"
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 5  # three plans, with room for wider fonts
