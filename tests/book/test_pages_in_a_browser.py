"""Each page as a reader sees it: on a wide and a narrow screen, light and dark, with no network."""

import re
from contextlib import closing

import pytest
from tests.book import axe
from tests.book.conftest import AXE_LOOKS, BESIDE, NAMES, SCHEMES, SIZES


@pytest.fixture(params=NAMES)
def seen(request, visit):
    """All visits to one page."""
    return [visit(request.param, size)[scheme] for size in SIZES for scheme in SCHEMES]


def luminance(colour: str) -> float:
    """Relative luminance of a CSS colour, as WCAG 2.1 defines it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(ink: str, paper: str) -> float:
    """Contrast ratio of two CSS colours, as WCAG 2.1 defines it."""
    dark, light = sorted((luminance(ink), luminance(paper)))
    return (light + 0.05) / (dark + 0.05)


def test_page_is_no_wider_than_the_screen(seen):
    assert [one.look["width"] for one in seen] == [one.look["room"] for one in seen]


def test_no_table_has_to_be_moved_sideways(seen):
    assert [one.look["sideways"] for one in seen] == [[]] * len(seen)


def test_page_follows_the_readers_light_or_dark(seen):
    for one, scheme in zip(seen, SCHEMES * len(SIZES), strict=True):
        assert one.look["scheme"] == scheme
        assert (luminance(one.look["paper"]) < 0.2) == (scheme == "dark")
        assert contrast(one.look["ink"], one.look["paper"]) >= 4.5


def test_code_stands_out_from_what_is_behind_it(seen):
    for one in seen:
        pairs = [pair.split(" on ") for pair in one.look["code"]]
        assert [pair for pair in pairs if contrast(*pair) < 4.5] == []


def test_page_raises_no_error_in_the_browser(seen):
    assert [one.complaints for one in seen] == [[]] * len(seen)


def test_page_asks_no_other_host_for_anything(seen):
    assert [one.elsewhere for one in seen] == [[]] * len(seen)


def test_page_finds_all_its_files(seen):
    assert [one.failed for one in seen] == [[]] * len(seen)


def test_page_shows_every_picture_and_formula(seen):
    assert [one.look["broken"] + one.look["flat"] for one in seen] == [[]] * len(seen)


@pytest.mark.parametrize("name", [*NAMES, *BESIDE])
def test_axe_core_finds_no_violation(name, visit):
    found = {(size, scheme): visit(name, size)[scheme].violations for size, scheme in AXE_LOOKS}
    assert found == {look: [] for look in AXE_LOOKS}


def test_axe_core_would_find_one(browser, site):
    with closing(browser.new_page()) as page:
        page.goto(f"{site}/404.html")
        page.evaluate("document.body.append(new Image())")
        assert [line.split(":")[0] for line in axe.violations(page)] == ["image-alt"]
