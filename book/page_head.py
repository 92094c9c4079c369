"""What a page tells search engines and messengers about itself: a Sphinx extension.

Writes a description, from the page's first paragraph, and the tags of a social card. The card's
picture needs a full address, so it is named only where the site's own is known (SITE_URL).
"""

from html import escape
from typing import Any
from urllib.parse import urljoin, urlsplit

from docutils import nodes
from sphinx.application import Sphinx

LONGEST = 160  # what a search engine shows of a description
CARD = "_static/card.png"
CARD_ALT = "Inside generate(): one answer of a language model, opened up"


def description(doctree: nodes.document | None) -> str:
    """The first paragraph below the title, cut at a word; empty if there is none."""
    if doctree is None:
        return ""
    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if len(text) > LONGEST:
            text = text[:LONGEST].rpartition(" ")[0].rstrip(",;:") + " …"
        if text:
            return text
    return ""


def tags(title: str, about: str, site: str, page: str) -> str:
    """The elements of the head, each on a line."""
    card = {"og:type": "article", "og:site_name": "Inside generate()", "og:title": title}
    names = {"twitter:card": "summary"}
    if about:
        names["description"] = card["og:description"] = about
    if site:
        card |= {"og:url": urljoin(site, page), "og:image": urljoin(site, CARD)}
        card |= {"og:image:width": "1200", "og:image:height": "630", "og:image:alt": CARD_ALT}
        names["twitter:card"] = "summary_large_image"
    lines = [f'<meta property="{key}" content="{escape(value)}" />' for key, value in card.items()]
    lines += [f'<meta name="{key}" content="{escape(value)}" />' for key, value in names.items()]
    return "\n".join(lines) + "\n"


def add_tags(
    app: Sphinx, page: str, _: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Add the tags to a page of the book, and the site's path for the page that is not found."""
    site = app.config.html_baseurl
    context["site_path"] = urlsplit(site).path
    if doctree is None:
        return
    title = nodes.document.astext(app.env.titles[page])
    made = tags(title, description(doctree), site, f"{page}.html")
    context["metatags"] = context.get("metatags", "") + made


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("html-page-context", add_tags)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
