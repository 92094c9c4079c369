"""Sphinx extension for the page of calculators: its data, and its scripts on that page alone.

The directive `{calculators}` puts into the page what the scripts start from: the configs of the
course's models, and the two ceilings of each machine in `book/results`, with their provenance. What
is computed, and how it looks, is in `_static/` (`arithmetic.js`, `config.js`, `calculators.js`).
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

REFERENCE = "Qwen2.5-0.5B-Instruct, the reference"
OTHERS = Path("book/calculators.json")  # the stand-ins' configs, as far as sizes go
RESULTS = Path("book/results")
SCRIPTS = ("arithmetic.js", "config.js", "calculators.js")
MARK = "inside_generate_calculators"


def reference_config() -> dict[str, Any]:
    """The reference's `config.json`, from the package's data; the package is not imported."""
    found = find_spec("inside_generate")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError("inside_generate is not installed: pip install -e .")
    folder = Path(next(iter(found.submodule_search_locations)))
    text = (folder / "data/qwen2.5-0.5b-instruct/config.json").read_text("utf-8")
    config: dict[str, Any] = json.loads(text)
    return config


def models(root: Path) -> dict[str, dict[str, Any]]:
    """The configs to choose from, by the name that readers see."""
    others: dict[str, dict[str, Any]] = json.loads((root / OTHERS).read_text("utf-8"))
    return {REFERENCE: reference_config(), **others}


def machine(path: Path) -> dict[str, Any]:
    """A recorded machine: its two ceilings and where they come from."""
    record = json.loads(path.read_text("utf-8"))
    ceilings = record["ceilings"]
    threads = f", {record['threads']} threads" if record["device"] == "cpu" else ""
    return {
        "name": f"{record['device_name']}{threads}, {record['dtype']}",
        "gb_per_s": ceilings["memory_gb_per_s"],
        "gflop_per_s": ceilings["matmul_gflop_per_s"],
        "provenance": f"measured on {record['date'][:10]} with torch {record['torch_version']}, "
        f"{record['dtype']}; book/results/{path.name}",
    }


def data(root: Path) -> dict[str, Any]:
    """All that the scripts start from."""
    recorded = sorted((root / RESULTS).glob("*.json"))
    return {"models": models(root), "machines": [machine(path) for path in recorded]}


class Calculators(SphinxDirective):
    """Puts the data into the page and marks the page as one that needs the scripts."""

    def run(self) -> list[nodes.Node]:
        """One raw node; ``<`` is escaped, so that no text in it can end the element."""
        content = data(Path(self.env.srcdir))
        self.env.metadata[self.env.docname][MARK] = True
        text = json.dumps(content).replace("<", "\\u003c")
        html = f'<script type="application/json" id="calculators-data">{text}</script>'
        return [nodes.raw("", html, format="html")]


def add_files(app: Sphinx, page: str, _template: str, _context: Any, _tree: Any) -> None:
    """Load scripts and style on marked pages only."""
    if app.env.metadata.get(page, {}).get(MARK):
        app.add_css_file("calculators.css")
        for name in SCRIPTS:
            app.add_js_file(name, loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("calculators", Calculators)
    app.connect("html-page-context", add_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
