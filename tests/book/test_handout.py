"""The handout for teachers prints on one sheet of A4."""

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
