"""The built pages, served on the loopback address, and a browser where there is one."""

import functools
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from tests.book import axe

import pages

ROOT = Path(__file__).parents[2]
HTML = ROOT / pages.HTML
NAMES = [document.with_suffix("").as_posix() for document in pages.documents(ROOT)]
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-quic"]
# The browser finds no host but this one, whatever a page asks for.
OPTIONS += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
SIZES = {"wide": 1280, "narrow": 360}
SCHEMES = ("light", "dark")
# Where axe-core is asked: two looks that meet both widths and both schemes. `make test-all` sets
# TEST_ALL, and asks it in all four, which takes twice as long.
AXE_LOOKS = [("wide", "light"), ("narrow", "dark")]
if os.environ.get("TEST_ALL"):
    AXE_LOOKS += [("wide", "dark"), ("narrow", "light")]
BESIDE = ("search", "404")  # pages that are no document

# What a page looks like from inside, as plain data.
LOOK = """() => {
  const style = (element) => getComputedStyle(element);
  const content = document.querySelector('.bd-article') || document.body;
  const clear = (colour) => ['transparent', 'rgba(0, 0, 0, 0)'].includes(colour);
  const behind = (element) => clear(style(element).backgroundColor) && element.parentElement
    ? behind(element.parentElement) : style(element).backgroundColor;
  const code = [...document.querySelectorAll('.highlight pre, .highlight pre span')];
  return {
    width: document.documentElement.scrollWidth,
    room: window.innerWidth,
    scheme: document.documentElement.dataset.theme,
    ink: style(content).color,
    paper: style(document.body).backgroundColor,
    broken: [...document.images].filter((image) => !image.naturalWidth).map((image) => image.src),
    code: [...new Set(code.map((part) => `${style(part).color} on ${behind(part)}`))],
    sideways: [...document.querySelectorAll('.pst-scrollable-table-container')]
      .filter((box) => box.scrollWidth > box.clientWidth + 1)
      .map((box) => box.textContent.trim().slice(0, 40)),
    flat: [...document.querySelectorAll('math')]
      .filter((formula) => formula.checkVisibility() && !formula.getBoundingClientRect().height)
      .map((formula) => formula.textContent),
  };
}"""

# A page without a theme of its own, 404, follows by its styles alone.
THEME_IS = "(scheme) => [undefined, scheme].includes(document.documentElement.dataset.theme)"


@dataclass(frozen=True)
class Visit:
    """What one visit to a page showed."""

    look: dict
    complaints: list[str]  # errors and warnings of the console, scripts that threw
    elsewhere: list[str]  # addresses on other hosts that the page asked for; none was reached
    failed: list[str]  # files of the book that were not there
    violations: list[str] | None  # what axe-core has against it; None where it was not asked


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Keep the test's output for the tests."""


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of the book, served on this machine until the tests are done."""
    assert (HTML / "index.html").is_file(), "there are no pages yet; type `make book`"
    handler = functools.partial(Quiet, directory=str(HTML))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium: the one that CHROMIUM names, the system's, or Playwright's own."""
    with sync_playwright() as playwright:
        found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
        if not found and not Path(playwright.chromium.executable_path).exists():
            pytest.skip(
                "no Chromium here: install it (apt install chromium, or "
                "python -m playwright install chromium) or name it with CHROMIUM=/path/to/it"
            )
        chromium = playwright.chromium.launch(executable_path=found, args=OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def screens(browser):
    """A tab for each size. All visits use the same: a new tab each time costs double."""
    return {
        size: browser.new_context(viewport={"width": width, "height": 900}).new_page()
        for size, width in SIZES.items()
    }


@contextmanager
def hearing(page, **handlers):
    """Hand the page's events to these handlers, by the events' names, as long as a block lasts."""
    for event, handler in handlers.items():
        page.on(event, handler)
    yield
    for event, handler in handlers.items():
        page.remove_listener(event, handler)


def turn(page, scheme: str) -> None:
    """Ask for a scheme, as a reader's device does, and wait until the page has followed."""
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function(THEME_IS, arg=scheme)
    page.evaluate("for (const change of document.getAnimations()) change.finish()")


@pytest.fixture(scope="session")
def visit(screens, site):
    """Return a function that visits a page once for each size and says what it saw, by scheme.

    The scheme changes while the page is open, as a reader's may: it has to follow.
    """

    @functools.cache
    def go(name: str, size: str) -> dict[str, Visit]:
        complaints, elsewhere, failed, looks, found = [], [], [], {}, {}

        def asked(request):
            if not request.url.startswith((site, "data:")):
                elsewhere.append(request.url)

        page = screens[size]
        page.emulate_media(color_scheme=SCHEMES[0])
        with hearing(
            page,
            console=lambda said: note(said, complaints),
            pageerror=lambda error: complaints.append(str(error)),
            request=asked,
            # 304 says that a file is as it was: it is there.
            response=lambda got: got.status < 400 or failed.append(f"{got.status} {got.url}"),
        ):
            page.goto(f"{site}/{name}.html", wait_until="load")
            for scheme in SCHEMES:
                turn(page, scheme)
                looks[scheme] = page.evaluate(LOOK)
        for scheme in SCHEMES:  # only now: axe-core's run changes a page
            if (size, scheme) in AXE_LOOKS:
                turn(page, scheme)
                found[scheme] = axe.violations(page)
        return {
            scheme: Visit(look, complaints, elsewhere, failed, found.get(scheme))
            for scheme, look in looks.items()
        }

    return go


@pytest.fixture(scope="session")
def open_quietly(browser, site):
    """Return a function that opens a page for a block; the console has to stay silent in it."""

    @contextmanager
    def go(path: str, width: int):
        complaints: list[str] = []
        context = browser.new_context(viewport={"width": width, "height": 900})
        with closing(context), closing(context.new_page()) as page:
            page.on("console", lambda said: note(said, complaints))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto(f"{site}/{path}")
            yield page
            assert complaints == []

    return go


def note(said, complaints: list[str]) -> None:
    """Keep what the console says, unless it is chatter or about a request that was refused."""
    if said.type in ("error", "warning") and "net::ERR_NAME_NOT_RESOLVED" not in said.text:
        complaints.append(said.text)
