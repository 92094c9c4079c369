"""The directive that puts a generation player into a page.

    ```{player} lunch sky
    :first: sky
    ```

A Sphinx extension. The names are recordings, as `recordings.py` lays them out beside the sources;
`first` is the one shown first. The script is loaded on pages that have a player, on no others.
"""

import json
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from inside_generate.player_page import player_html

SCRIPT = "player.js"


class PlayerDirective(SphinxDirective):
    """Shows recorded runs by name; a warning, which fails the build, for one that is not there."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar = {"first": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Return the element with the data of its runs, and the table for readers without it."""
        names = self.arguments[0].split()
        first = self.options.get("first", names[0])
        if first not in names:
            return [self.warn(f"the player shows {', '.join(names)}, and not {first}")]
        folder = Path(self.env.srcdir) / "players"
        missing = [name for name in names if not (folder / f"{name}.json").is_file()]
        if missing:
            return [self.warn(f"nothing is recorded as {missing[0]}; type `make book`")]
        runs = [json.loads((folder / f"{name}.json").read_text("utf-8")) for name in names]
        html = player_html(runs, names.index(first))
        return [nodes.raw("", html, format="html", classes=["generation-player"])]

    def warn(self, message: str) -> nodes.Node:
        """Report what is wrong, at the directive's line."""
        return self.state.document.reporter.warning(message, line=self.lineno)


def add_script(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Load the script where a player is."""
    del page, template, context
    if doctree and any("generation-player" in n["classes"] for n in doctree.findall(nodes.raw)):
        app.add_js_file(SCRIPT, loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive with Sphinx."""
    app.add_directive("player", PlayerDirective)
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
