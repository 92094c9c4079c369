"""Pages stay light: each by itself, and what this book adds to the files that all pages share."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup
from tests.book.conftest import HTML, NAMES

import pages
from notebook_runs import PINS

PAGE_BYTES = 1_500_000
SHARED_BYTES = 500_000


@pytest.mark.parametrize("name", NAMES)
def test_a_page_with_its_pictures_is_light(name):
    path = HTML / f"{name}.html"
    text = path.read_text("utf-8")
    pictures = {
        (path.parent / unquote(urlsplit(image["src"]).path)).resolve()
        for image in BeautifulSoup(text, "html.parser").select("img[src]")
        if not image["src"].startswith("data:")
    }
    assert len(text.encode()) + sum(picture.stat().st_size for picture in pictures) <= PAGE_BYTES


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> set[str]:
    """The shared files of a book of one page, with the same theme and nothing of ours."""
    root = tmp_path_factory.mktemp("bare")
    for name in PINS:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / pages.SOURCE).mkdir(parents=True)
    (root / pages.SOURCE / "_config.yml").write_text("title: Bare\n")
    (root / pages.SOURCE / "_toc.yml").write_text("format: jb-book\nroot: one\n")
    (root / pages.SOURCE / "one.md").write_text("# One\n")
    page = root / pages.HTML / "one.html"
    pages.build(root, [page])
    return {shared.as_posix() for shared in shared_files(root / pages.HTML)}


def shared_files(html: Path) -> list[Path]:
    """The files of no page of its own, below the folder of the pages."""
    return [path.relative_to(html) for path in html.glob("_static/**/*") if path.is_file()]


def test_what_the_book_adds_to_the_shared_files_is_light(bare):
    assert "_static/styles/theme.css" in bare
    own = [path for path in shared_files(HTML) if path.as_posix() not in bare]
    assert any(re.search(r"custom\.css$", path.as_posix()) for path in own)
    sizes = {path.as_posix(): (HTML / path).stat().st_size for path in own}
    assert sum(sizes.values()) <= SHARED_BYTES, sizes
