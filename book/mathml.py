"""Formulas as MathML, which browsers show by themselves: no script, no network.

A Sphinx extension, switched on in `_config.yml` (`html_math_renderer: mathml`). The conversion is
Docutils' own; TeX that it does not know is reported as a warning, which fails the build.
"""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)


def formula(node: nodes.math | nodes.math_block, as_block: bool) -> str:
    """The formula of `node` as a `<math>` element; empty, with a warning, if unreadable."""
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logger.warning("this formula cannot be shown: %s (%s)", node.astext(), error, location=node)
        return ""


def visit_math(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(formula(node, as_block=False))
    raise nodes.SkipNode


def visit_math_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula of its own, in a box that scrolls where the screen is too narrow."""
    box = '<div class="formula" tabindex="0" role="group" aria-label="Formula">'  # scrolls by keys
    translator.body.append(f"{box}{formula(node, as_block=True)}</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer with Sphinx."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
