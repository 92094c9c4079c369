"""Mends what the builders of the pages get wrong for some readers: a Sphinx extension.

Knows the HTML that Sphinx, MyST-NB and the bibliography write, and changes it in a few places, each
with its reason. What the theme gets wrong is mended in `_templates`.
"""

import re
from typing import Any

from sphinx.application import Sphinx

MENDED = {
    # The words on the summary are its name; a label that says something else hides them.
    ' aria-label="Toggle hidden content"': "",
    # This role is deprecated; the list around it wants items.
    ' role="doc-biblioentry"': ' role="listitem"',
    # A cell in the corner of a table heads nothing.
    '<th class="head"><p></p></th>': "<td></td>",
}
LETTERS = "\u3040-\u30ff\u3400-\u9fff"  # kana and ideographs
# Markup, and elements whose text cannot hold a span, are passed over; passages are found between.
PASSAGE = re.compile(
    r"<!--.*?-->|<(script|style|svg|math|textarea|select)\b.*?</\1\s*>"
    r"""|<(?:"[^"]*"|'[^']*'|[^'">])*>"""
    rf"|(?P<passage>[{LETTERS}][{LETTERS}\u3001-\u303f\uff01-\uff5e]*)",
    re.DOTALL,
)


# A numbered figure, from its picture to where its caption ends or goes on to the link to itself.
FIGURE = re.compile(
    r'<img [^>]*src="(?P<file>[^"]+)"[^>]*>\s*<figcaption>\s*<p>'
    r'<span class="caption-number">(?P<number>[^<]+?)\s*</span>.*?(?=<a class="headerlink"|</p>)',
    re.DOTALL,
)


def with_large_figures(body: str) -> str:
    """The HTML with a link to each figure's own file, which small screens show: see custom.css."""
    link = ' <a class="enlarge" href="{}">Enlarge {}</a>'
    return FIGURE.sub(lambda one: one[0] + link.format(one["file"], one["number"]), body)


def with_languages(body: str) -> str:
    """The HTML with each Chinese (or Japanese) passage marked, for voices and for fonts."""

    def marked(found: re.Match[str]) -> str:
        passage = found["passage"]
        if not passage:
            return found[0]
        language = "ja" if re.search("[\u3040-\u30ff]", passage) else "zh"
        return f'<span lang="{language}">{passage}</span>'

    return PASSAGE.sub(marked, body)


def mend(_: Sphinx, __: str, ___: str, context: dict[str, Any], ____: Any) -> None:
    """Mend the body of a page."""
    if body := context.get("body"):
        for was, now in MENDED.items():
            body = body.replace(was, now)
        context["body"] = with_large_figures(with_languages(body))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("html-page-context", mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
